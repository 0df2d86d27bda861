package plugins

import (
	"errors"
	"fmt"
	"math"
	"time"
)

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a boolean"
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	case []any, []map[string]any:
		return "an array"
	}
	return fmt.Sprintf("%T", v)
}

// jsonValue converts a decoded TOML value to what encoding/json writes without
// loss: dates and times become strings.
func jsonValue(v any, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested deeper than %d levels", maxNesting)
	}
	switch v := v.(type) {
	case string, bool, int64:
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("nan and inf have no JSON form")
		}
		return v, nil
	case time.Time:
		return timeText(v), nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			c, err := jsonValue(e, depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", clip(k, 64), err)
			}
			out[k] = c
		}
		return out, nil
	case []map[string]any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = e
		}
		return jsonValue(list, depth)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			c, err := jsonValue(e, depth+1)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			out[i] = c
		}
		return out, nil
	}
	return nil, fmt.Errorf("%T has no JSON form", v)
}

// timeText writes a time as it stood in the file; the parser marks local ones by
// the name of their zone.
func timeText(t time.Time) string {
	switch t.Location().String() {
	case "datetime-local":
		return t.Format("2006-01-02T15:04:05.999999999")
	case "date-local":
		return t.Format("2006-01-02")
	case "time-local":
		return t.Format("15:04:05.999999999")
	}
	return t.Format(time.RFC3339Nano)
}
