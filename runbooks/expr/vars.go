package expr

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Vars are the values of variables by their full names. A value is what JSON
// has (string, bool, int64, float64, nil, []any, map[string]any), another Go
// number, []string, map[string]string, []byte, a time.Duration, a time.Time,
// or [Unknown]. Objects are not copied; they must not change meanwhile.
//
// A value that JSON has changed on its way becomes again what the variable is
// declared to be: a whole number an int, a string a duration or a timestamp.
type Vars map[string]any

type unknown struct{}

// Unknown stands for a value that is not known yet.
var Unknown any = unknown{}

// admit returns v as CEL is to see it, or an error if it is not of type t.
func admit(v any, t Type) (any, error) {
	c := t.cel()
	if v == nil {
		return admitNull(t)
	}
	if u, ok := unwrapped(c); ok {
		c = u
	}
	switch Type(t).base() {
	case baseString:
		if _, ok := v.(string); ok {
			return v, nil
		}
	case baseBool:
		if _, ok := v.(bool); ok {
			return v, nil
		}
	case baseInt:
		if i, ok := asInt(v); ok {
			return i, nil
		}
	case baseDouble:
		if f, ok := asFloat(v); ok {
			return f, nil
		}
	case baseDuration:
		return admitDuration(v)
	case baseTimestamp:
		return admitTime(v)
	case baseList:
		return admitList(v, Type{c.Parameters()[0]})
	default:
		return v, nil
	}
	return nil, fmt.Errorf("want %s, got %s", t, describe(v))
}

func admitNull(t Type) (any, error) {
	if _, nullable := unwrapped(t.cel()); nullable || t.base() == baseOther {
		return nil, nil
	}
	return nil, fmt.Errorf("want %s, got null", t)
}

func admitDuration(v any) (any, error) {
	switch v := v.(type) {
	case time.Duration:
		return v, nil
	case string:
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, fmt.Errorf("want a duration, got %q", v)
		}
		return d, nil
	}
	return nil, fmt.Errorf("want a duration, got %s", describe(v))
}

func admitTime(v any) (any, error) {
	switch v := v.(type) {
	case time.Time:
		return v, nil
	case string:
		t, err := time.Parse(time.RFC3339Nano, v)
		if err != nil {
			return nil, fmt.Errorf("want a timestamp, got %q", v)
		}
		return t, nil
	}
	return nil, fmt.Errorf("want a timestamp, got %s", describe(v))
}

// admitList converts the elements where JSON may have changed them, and
// otherwise leaves the list as it is.
func admitList(v any, elem Type) (any, error) {
	list, ok := v.([]any)
	switch v.(type) {
	case []any:
	case []string:
		return v, nil
	default:
		return nil, fmt.Errorf("want a list, got %s", describe(v))
	}
	if b := elem.base(); !ok || b == baseOther {
		return v, nil
	}
	out := make([]any, len(list))
	for i, e := range list {
		var err error
		if out[i], err = admit(e, elem); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return out, nil
}

func asInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<63
	case json.Number:
		i, err := v.Int64()
		return i, err == nil
	}
	return 0, false
}

func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	i, ok := asInt(v)
	return float64(i), ok
}

// describe names the kind of a Go value with an article.
func describe(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "true or false"
	case []any, []string:
		return "a list"
	case map[string]any, map[string]string:
		return "a map"
	case []byte:
		return "bytes"
	case time.Duration:
		return "a duration"
	case time.Time:
		return "a timestamp"
	}
	if _, ok := asInt(v); ok {
		return "an int"
	}
	if _, ok := asFloat(v); ok {
		return "a number"
	}
	return fmt.Sprintf("a Go %T", v)
}
