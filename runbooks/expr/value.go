package expr

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
)

// Value is the result of an evaluation.
//
// V is a plain Go value: string, bool, int64, float64, nil, []byte,
// time.Duration, []any or map[string]any. A timestamp is a string in RFC 3339
// form, so are IP addresses, CIDRs, versions and quantities strings; an
// optional is its value or nil. V may share memory with the variables.
type Value struct {
	V any

	// Unknown names the unknown variables on which the result depends,
	// sorted. If there are any, V is nil.
	Unknown []string
}

// IsUnknown reports whether the result depends on an unknown variable.
func (v Value) IsUnknown() bool { return len(v.Unknown) > 0 }

// maxDepth bounds the nesting of results.
const maxDepth = 1000

var errTooDeep = errors.New("the result is nested too deeply")

// native returns v as a plain Go value.
func native(v ref.Val, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large for an int", uint64(v))
		}
		return int64(v), nil
	case types.Double:
		return float64(v), nil
	case types.Bytes:
		return slices.Clone([]byte(v)), nil
	case types.Null:
		return nil, nil
	case types.Duration:
		return v.Duration, nil
	case types.Timestamp:
		return v.Time.UTC().Format(time.RFC3339Nano), nil
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil
		}
		return native(v.GetValue(), depth+1)
	case *types.Err:
		return nil, v
	case ext.IP:
		return v.Addr.String(), nil
	case ext.CIDR:
		return v.Prefix.String(), nil
	case *opaque:
		return v.text, nil
	case ref.Type:
		return v.TypeName(), nil
	}
	switch v := v.(type) {
	case traits.Mapper:
		return nativeMap(v, depth)
	case traits.Lister:
		return nativeList(v, depth)
	}
	return nil, fmt.Errorf("a result of type %s cannot be used", nameWords(v.Type().TypeName()))
}

func nativeMap(m traits.Mapper, depth int) (any, error) {
	if whole, ok := m.Value().(map[string]any); ok {
		return whole, nil
	}
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		v, err := native(m.Get(key), depth+1)
		if err != nil {
			return nil, err
		}
		k, ok := key.ConvertToType(types.StringType).(types.String)
		if !ok {
			return nil, fmt.Errorf("a key of a map must be a string, got %s", nameWords(key.Type().TypeName()))
		}
		out[string(k)] = v
	}
	return out, nil
}

func nativeList(l traits.Lister, depth int) (any, error) {
	if whole, ok := l.Value().([]any); ok {
		return whole, nil
	}
	out := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		v, err := native(it.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// conform returns the plain value v as want, or an error if it is none.
func conform(v any, want Type) (any, error) {
	if want.cel().Kind() == types.DynKind {
		return v, nil
	}
	if v == nil {
		return admitNull(want)
	}
	switch want.base() {
	case baseTimestamp:
		if t, err := admitTime(v); err == nil {
			return t.(time.Time).UTC().Format(time.RFC3339Nano), nil
		}
	case baseDuration:
		if d, ok := v.(time.Duration); ok {
			return d, nil
		}
	case baseMap:
		if reflect.ValueOf(v).Kind() == reflect.Map {
			return v, nil
		}
	default:
		return admit(v, want)
	}
	return nil, fmt.Errorf("want %s, got %s", want, describe(v))
}
