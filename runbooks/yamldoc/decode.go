package yamldoc

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"rutter/runbooks/diag"
)

// Decoder fills Go values from nodes. It adds to List and goes on, so that
// one pass shows all that is wrong; a value it complained about stays zero.
type Decoder struct {
	Source diag.Source
	List   *diag.List
	// String, if set, is asked for every string below a value, unless its
	// field is raw. want is string, []string or any: what the field takes.
	// It returns the value to use instead, or false to use the text; nil is a
	// value that it has reported as wrong itself.
	String func(n *yaml.Node, want reflect.Type) (any, bool)
	// Elsewhere, if set, says where a key belongs that is unknown where it
	// stands; "" if it knows nothing of it.
	Elsewhere func(key string) string
	// Types decodes values of particular types its own way.
	Types map[reflect.Type]func(d *Decoder, n *yaml.Node, v reflect.Value)
}

// Pos is where a node stands.
func (d *Decoder) Pos(n *yaml.Node) diag.Pos {
	return diag.Pos{File: d.Source.Name, Line: n.Line, Col: n.Column}
}

// At is where the byte at offset of a scalar's value stands.
func (d *Decoder) At(n *yaml.Node, offset int) diag.Pos { return Locate(d.Source, n, offset) }

// Into fills what out points at. what names the node in messages, such as
// "step find" or "delete".
func (d *Decoder) Into(n *yaml.Node, out any, what string) {
	d.value(n, reflect.ValueOf(out).Elem(), what, Field{})
}

// Pairs calls fn for each key and value of a mapping, and reports doubles and
// keys that are not text.
func (d *Decoder) Pairs(n *yaml.Node, fn func(key, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			d.List.Addf(d.Pos(key), "a key must be text, got %s", describe(key))
			continue
		}
		if line, ok := seen[key.Value]; ok {
			d.List.AddHint(d.Pos(key), "drop one of them", "%q stands here a second time; the first is on line %d", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		fn(key, n.Content[i+1])
	}
}

func (d *Decoder) value(n *yaml.Node, v reflect.Value, what string, f Field) {
	if fn, ok := d.Types[v.Type()]; ok {
		fn(d, n, v)
		return
	}
	if l, ok := v.Addr().Interface().(namedList); ok {
		d.named(n, l, what)
		return
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d.duration(n, v, what)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		elem := reflect.New(v.Type().Elem())
		d.value(n, elem.Elem(), what, f)
		v.Set(elem)
	case reflect.Struct:
		d.structure(n, v, what)
	case reflect.Slice:
		d.list(n, v, what, f)
	case reflect.Map:
		d.mapping(n, v, what, f)
	case reflect.Interface:
		if x := d.any(n, f.Raw); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	case reflect.String:
		d.text(n, v, what, f)
	default:
		d.scalar(n, v, what)
	}
}

func (d *Decoder) wrong(n *yaml.Node, what, want string) {
	hint := ""
	if want == "text" && n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		hint = "quote it: '" + n.Value + "'"
	}
	d.List.AddHint(d.Pos(n), hint, "%s: want %s, got %s", what, want, describe(n))
}

func (d *Decoder) structure(n *yaml.Node, v reflect.Value, what string) {
	if n.Kind != yaml.MappingNode {
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" && len(required(v.Type())) == 0 {
			return
		}
		d.wrong(n, what, "keys and values")
		return
	}
	fields := Fields(v.Type())
	seen := map[string]bool{}
	d.Pairs(n, func(key, value *yaml.Node) {
		seen[key.Value] = true
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == key.Value })
		if i < 0 {
			d.Unknown(key, what, names(fields))
			return
		}
		f := fields[i]
		d.value(value, v.FieldByIndex(f.Index), f.Name, f)
	})
	for _, f := range fields {
		if f.Required && !seen[f.Name] {
			d.Missing(n, what, f.Name, f.Doc)
		}
	}
}

// Unknown reports a key that is none of known.
func (d *Decoder) Unknown(key *yaml.Node, what string, known []string) {
	hint := ""
	if d.Elsewhere != nil && diag.Nearest(key.Value, known) == "" {
		hint = d.Elsewhere(key.Value)
	}
	if hint == "" {
		hint = diag.DidYouMean(key.Value, known)
	}
	d.List.AddHint(d.Pos(key), hint, "unknown key %q in %s", key.Value, what)
}

// Missing reports a key that a mapping must have.
func (d *Decoder) Missing(n *yaml.Node, what, name, doc string) {
	hint := "add " + name + ": …"
	if doc != "" {
		hint += "  # " + firstSentence(doc)
	}
	d.List.AddHint(d.Pos(n), hint, "%s: the key %q is missing", what, name)
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}

func names(fields []Field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.Name
	}
	return out
}

func required(t reflect.Type) []string {
	var out []string
	for _, f := range Fields(t) {
		if f.Required {
			out = append(out, f.Name)
		}
	}
	return out
}

func (d *Decoder) named(n *yaml.Node, l namedList, what string) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, what, "keys and values")
		return
	}
	d.Pairs(n, func(key, value *yaml.Node) {
		elem := reflect.New(l.element()).Elem()
		d.value(value, elem, key.Value, Field{})
		l.add(key, value, elem)
	})
}

func (d *Decoder) duration(n *yaml.Node, v reflect.Value, what string) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		d.wrong(n, what, "a duration such as 30s or 5m")
		return
	}
	dur, err := time.ParseDuration(n.Value)
	if err != nil || dur <= 0 {
		d.List.AddHint(d.Pos(n), "write it as 30s, 5m or 1h30m", "%s: %q is no duration", what, n.Value)
		return
	}
	v.SetInt(int64(dur))
}

func (d *Decoder) list(n *yaml.Node, v reflect.Value, what string, f Field) {
	items := n.Content
	if n.Kind != yaml.SequenceNode {
		if n.Kind == yaml.ScalarNode && v.Type().Elem().Kind() == reflect.String && d.String != nil && !f.Raw && n.ShortTag() == "!!str" {
			if x, ok := d.String(n, reflect.TypeFor[[]string]()); ok {
				if x != nil {
					setStrings(v, x)
				}
				return
			}
		}
		if !f.Single || n.Kind == yaml.MappingNode && v.Type().Elem().Kind() == reflect.String {
			d.wrong(n, what, "a list")
			return
		}
		items = []*yaml.Node{n}
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		d.value(item, out.Index(i), fmt.Sprintf("%s[%d]", what, i), f)
	}
	if f.Required && len(items) == 0 {
		d.List.Addf(d.Pos(n), "%s: the list is empty", what)
	}
	v.Set(out)
}

// setStrings takes what a hook returned for a list of strings: one, or many.
func setStrings(v reflect.Value, x any) {
	list, ok := x.([]any)
	if !ok {
		list = []any{x}
	}
	out := reflect.MakeSlice(v.Type(), len(list), len(list))
	for i, s := range list {
		out.Index(i).SetString(fmt.Sprint(s))
	}
	v.Set(out)
}

func (d *Decoder) mapping(n *yaml.Node, v reflect.Value, what string, f Field) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, what, "keys and values")
		return
	}
	out := reflect.MakeMap(v.Type())
	d.Pairs(n, func(key, value *yaml.Node) {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(value, elem, key.Value, Field{Raw: f.Raw})
		out.SetMapIndex(reflect.ValueOf(key.Value).Convert(v.Type().Key()), elem)
	})
	v.Set(out)
}

func (d *Decoder) text(n *yaml.Node, v reflect.Value, what string, f Field) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && n.ShortTag() != "!!timestamp" {
		d.wrong(n, what, "text")
		return
	}
	if len(f.Enum) > 0 {
		if !slices.Contains(f.Enum, n.Value) {
			d.List.AddHint(d.Pos(n), diag.DidYouMean(n.Value, f.Enum), "%s: %q is not allowed here", what, n.Value)
			return
		}
		v.SetString(n.Value)
		return
	}
	if d.String != nil && !f.Raw {
		if x, ok := d.String(n, reflect.TypeFor[string]()); ok {
			d.computed(n, v, x, what, f)
			return
		}
	}
	if f.Required && strings.TrimSpace(n.Value) == "" {
		d.List.Addf(d.Pos(n), "%s: the text is empty", what)
		return
	}
	v.SetString(n.Value)
}

// computed sets text that a hook made.
func (d *Decoder) computed(n *yaml.Node, v reflect.Value, x any, what string, f Field) {
	switch {
	case x == nil:
	case f.Filled && x == "":
		d.List.Addf(d.Pos(n), "%s: the expression gives an empty text, which would mean all of them", what)
	default:
		v.SetString(fmt.Sprint(x))
	}
}

func (d *Decoder) scalar(n *yaml.Node, v reflect.Value, what string) {
	want := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Int64: "a whole number", reflect.Float64: "a number"}[v.Kind()]
	ok := n.Kind == yaml.ScalarNode
	switch tag := n.ShortTag(); v.Kind() {
	case reflect.Bool:
		ok = ok && tag == "!!bool"
	case reflect.Int64:
		ok = ok && tag == "!!int"
	case reflect.Float64:
		ok = ok && (tag == "!!int" || tag == "!!float")
	default:
		ok = false
	}
	if !ok || n.Decode(v.Addr().Interface()) != nil {
		d.wrong(n, what, want)
	}
}

// any decodes a free tree into strings, bools, int64, float64, []any and
// map[string]any.
func (d *Decoder) any(n *yaml.Node, raw bool) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		d.Pairs(n, func(key, value *yaml.Node) { m[key.Value] = d.any(value, raw) })
		return m
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = d.any(item, raw)
		}
		return list
	}
	if n.ShortTag() == "!!str" && d.String != nil && !raw {
		if x, ok := d.String(n, reflect.TypeFor[any]()); ok {
			return x
		}
	}
	return d.plain(n)
}

func (d *Decoder) plain(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool", "!!int", "!!float":
		var x any
		if err := n.Decode(&x); err != nil {
			d.List.Addf(d.Pos(n), "%q cannot be read: %s", n.Value, err)
			return nil
		}
		switch x := x.(type) {
		case int:
			return int64(x)
		case uint64:
			return float64(x)
		}
		return x
	}
	return n.Value
}
