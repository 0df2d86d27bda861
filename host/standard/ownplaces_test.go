package standard

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/host/config"
)

// Every file that the host file can name is one that no plugin gets, also those of
// settings that come later.
func TestEveryNamedFileIsThePlaceOfTheHost(t *testing.T) {
	var cfg config.Config
	var want []string
	n := 0
	next := func() string { n++; return fmt.Sprintf("/p%d", n) }
	var fill func(v reflect.Value, at string)
	fill = func(v reflect.Value, at string) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if f.IsExported() {
					fill(v.Field(i), at+"."+f.Name)
				}
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), at)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), at)
		case reflect.Map:
			e := reflect.New(v.Type().Elem()).Elem()
			fill(e, at)
			if key := v.Type().Key(); key.Kind() == reflect.String {
				v.Set(reflect.MakeMap(v.Type()))
				v.SetMapIndex(reflect.ValueOf("k").Convert(key), e)
			}
		case reflect.String:
			name := at[strings.LastIndex(at, ".")+1:]
			if v.Type() == reflect.TypeFor[string]() && slices.ContainsFunc([]string{"File", "Path", "Paths", "Dir"}, func(s string) bool { return strings.HasSuffix(name, s) }) {
				v.SetString(next())
				want = append(want, at+" "+v.String())
			}
		}
	}
	fill(reflect.ValueOf(&cfg).Elem(), "")
	own := ownPlaces(&cfg)
	for _, w := range want {
		if at, path, _ := strings.Cut(w, " "); !slices.ContainsFunc(own, func(p place) bool { return p.path == path }) {
			t.Errorf("%s may be granted to a plugin", at)
		}
	}
	if len(want) < 8 {
		t.Errorf("only %q are looked at", want)
	}
}
