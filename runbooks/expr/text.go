package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// readText returns the value that text stands for where want is wanted.
func readText(text string, want Type) (any, error) {
	var v any
	var err error
	switch want.base() {
	case baseBool:
		v, err = strconv.ParseBool(text)
		if err == nil && text != "true" && text != "false" {
			err = strconv.ErrSyntax
		}
	case baseInt:
		v, err = strconv.ParseInt(text, 10, 64)
	case baseDouble:
		v, err = strconv.ParseFloat(text, 64)
	case baseDuration:
		v, err = time.ParseDuration(text)
	case baseTimestamp:
		var at time.Time
		at, err = time.Parse(time.RFC3339Nano, text)
		v = at.UTC().Format(time.RFC3339Nano)
	default:
		return text, nil
	}
	if err != nil {
		return nil, fmt.Errorf("want %s, got %q", want, excerpt(text))
	}
	return v, nil
}

// Format returns the text by which a plain value stands in a string: numbers
// without needless zeros, durations as 1m30s, lists and maps as JSON. Null has
// none.
func Format(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errors.New("is null")
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case time.Duration:
		return v.String(), nil
	case []byte:
		return string(v), nil
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(jsonable(v)); err != nil {
		return "", fmt.Errorf("cannot be written as JSON: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// jsonable returns v with the durations in it as text.
func jsonable(v any) any {
	switch v := v.(type) {
	case time.Duration:
		return v.String()
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = jsonable(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = jsonable(e)
		}
		return out
	}
	return v
}
