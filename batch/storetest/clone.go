package storetest

import (
	"reflect"
	"time"
)

var timeType = reflect.TypeFor[time.Time]()

// clone copies v and everything it points to, so that neither side can reach the
// other's memory. Nil and empty stay apart.
func clone[T any](v T) T {
	var out T
	deepCopy(reflect.ValueOf(&out).Elem(), reflect.ValueOf(&v).Elem())
	return out
}

func deepCopy(dst, src reflect.Value) {
	switch src.Kind() {
	case reflect.Pointer:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.New(src.Type().Elem()))
		deepCopy(dst.Elem(), src.Elem())
	case reflect.Slice:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.MakeSlice(src.Type(), src.Len(), src.Len()))
		if src.Type().Elem().Kind() == reflect.Uint8 {
			reflect.Copy(dst, src)
			return
		}
		for i := range src.Len() {
			deepCopy(dst.Index(i), src.Index(i))
		}
	case reflect.Map:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.MakeMapWithSize(src.Type(), src.Len()))
		for it := src.MapRange(); it.Next(); {
			val := reflect.New(src.Type().Elem()).Elem()
			deepCopy(val, it.Value())
			dst.SetMapIndex(it.Key(), val)
		}
	case reflect.Struct:
		if src.Type() == timeType {
			// The monotonic reading never survives a real store.
			dst.Set(reflect.ValueOf(src.Interface().(time.Time).Round(0)))
			return
		}
		for i := range src.NumField() {
			deepCopy(dst.Field(i), src.Field(i))
		}
	default:
		dst.Set(src)
	}
}
