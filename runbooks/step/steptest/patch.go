package steptest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// errBadPatch means that a patch cannot be read, so nothing was tried.
var errBadPatch = errors.New("the patch cannot be read")

// mergePatch merges as RFC 7386 says. With byName it also merges lists whose
// items have names item by item, as a strategic merge patch and an apply do
// with most lists of the built-in types.
func mergePatch(target, patch any, byName bool) any {
	switch p := patch.(type) {
	case map[string]any:
		t, ok := target.(map[string]any)
		if !ok {
			t = map[string]any{}
		}
		for k, v := range p {
			if v == nil {
				delete(t, k)
				continue
			}
			t[k] = mergePatch(t[k], v, byName)
		}
		return t
	case []any:
		t, ok := target.([]any)
		if byName && ok && named(p) && named(t) {
			return mergeNamed(t, p)
		}
	}
	return runtime.DeepCopyJSONValue(patch)
}

func mergeNamed(target, patch []any) []any {
	for _, item := range patch {
		i := slices.IndexFunc(target, func(t any) bool { return nameOf(t) == nameOf(item) })
		fields, _ := item.(map[string]any)
		switch {
		case fields["$patch"] == "delete":
			if i >= 0 {
				target = slices.Delete(target, i, i+1)
			}
		case i >= 0:
			target[i] = mergePatch(target[i], item, true)
		default:
			target = append(target, mergePatch(nil, item, true))
		}
	}
	return target
}

// named reports whether every item of a list is an object with a name.
func named(list []any) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(v any) bool { return nameOf(v) == "" })
}

func nameOf(v any) string {
	m, _ := v.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// operation is one line of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

// applyJSONPatch does what RFC 6902 says.
func applyJSONPatch(doc any, body []byte) (any, error) {
	var ops []operation
	if err := json.Unmarshal(body, &ops); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadPatch, err)
	}
	for _, op := range ops {
		var err error
		if doc, err = op.apply(doc); err != nil {
			return nil, fmt.Errorf("%s operation on %q: %w", op.Op, op.Path, err)
		}
	}
	return doc, nil
}

func (op operation) apply(doc any) (any, error) {
	switch op.Op {
	case "add":
		return edit(doc, pointer(op.Path), func(any, bool) (any, error) { return op.Value, nil }, true)
	case "replace":
		return edit(doc, pointer(op.Path), func(_ any, found bool) (any, error) {
			if !found {
				return nil, errNoPath
			}
			return op.Value, nil
		}, false)
	case "remove":
		return remove(doc, pointer(op.Path))
	case "test":
		v, err := lookUp(doc, pointer(op.Path))
		if err == nil && !reflect.DeepEqual(v, op.Value) {
			err = errors.New("the value differs: test failed")
		}
		return doc, err
	case "copy", "move":
		v, err := lookUp(doc, pointer(op.From))
		if err != nil {
			return nil, err
		}
		v = runtime.DeepCopyJSONValue(v)
		if op.Op == "move" {
			if doc, err = remove(doc, pointer(op.From)); err != nil {
				return nil, err
			}
		}
		return edit(doc, pointer(op.Path), func(any, bool) (any, error) { return v, nil }, true)
	}
	return nil, fmt.Errorf("%w: unknown operation %q", errBadPatch, op.Op)
}

// pointer splits a JSON pointer.
func pointer(s string) []string {
	if s == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(s, "/"), "/")
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts
}

func lookUp(doc any, path []string) (any, error) {
	for _, p := range path {
		switch d := doc.(type) {
		case map[string]any:
			v, ok := d[p]
			if !ok {
				return nil, errNoPath
			}
			doc = v
		case []any:
			i, err := index(p, len(d)-1)
			if err != nil {
				return nil, err
			}
			doc = d[i]
		default:
			return nil, errNoPath
		}
	}
	return doc, nil
}

func index(s string, last int) (int, error) {
	i, err := strconv.Atoi(s)
	if err != nil || i < 0 || i > last {
		return 0, fmt.Errorf("index %q: %w", s, errNoPath)
	}
	return i, nil
}

// edit changes the value at a path; insert makes room for it in a list.
func edit(doc any, path []string, change func(old any, found bool) (any, error), insert bool) (any, error) {
	if len(path) == 0 {
		return change(doc, true)
	}
	switch d := doc.(type) {
	case map[string]any:
		old, found := d[path[0]]
		if len(path) > 1 && !found {
			return nil, errNoPath
		}
		v, err := descendEdit(old, found, path[1:], change, insert)
		if err == nil {
			d[path[0]] = v
		}
		return d, err
	case []any:
		if len(path) == 1 && insert {
			return insertAt(d, path[0], change)
		}
		i, err := index(path[0], len(d)-1)
		if err != nil {
			return nil, err
		}
		v, err := descendEdit(d[i], true, path[1:], change, insert)
		if err == nil {
			d[i] = v
		}
		return d, err
	}
	return nil, errNoPath
}

func descendEdit(old any, found bool, rest []string, change func(any, bool) (any, error), insert bool) (any, error) {
	if len(rest) == 0 {
		return change(old, found)
	}
	return edit(old, rest, change, insert)
}

func insertAt(list []any, at string, change func(any, bool) (any, error)) (any, error) {
	i := len(list)
	if at != "-" {
		var err error
		if i, err = index(at, len(list)); err != nil {
			return nil, err
		}
	}
	v, err := change(nil, false)
	if err != nil {
		return nil, err
	}
	return slices.Insert(list, i, v), nil
}

func remove(doc any, path []string) (any, error) {
	if len(path) == 0 {
		return nil, errNoPath
	}
	parent, err := lookUp(doc, path[:len(path)-1])
	if err != nil {
		return nil, err
	}
	last := path[len(path)-1]
	switch d := parent.(type) {
	case map[string]any:
		if _, ok := d[last]; !ok {
			return nil, errNoPath
		}
		delete(d, last)
		return doc, nil
	case []any:
		i, err := index(last, len(d)-1)
		if err != nil {
			return nil, err
		}
		return edit(doc, path[:len(path)-1], func(any, bool) (any, error) { return slices.Delete(d, i, i+1), nil }, false)
	}
	return nil, errNoPath
}
