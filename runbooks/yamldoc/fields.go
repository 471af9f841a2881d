package yamldoc

import (
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Named is one entry of a [NamedList].
type Named[T any] struct {
	Name  string
	Key   *yaml.Node
	Node  *yaml.Node
	Value T
}

// NamedList is a mapping whose keys the author chooses, in the order written.
type NamedList[T any] []Named[T]

// namedList lets the decoder and the schema see through the type parameter.
type namedList interface {
	element() reflect.Type
	add(key, node *yaml.Node, value reflect.Value)
}

func (l *NamedList[T]) element() reflect.Type { return reflect.TypeFor[T]() }

func (l *NamedList[T]) add(key, node *yaml.Node, value reflect.Value) {
	*l = append(*l, Named[T]{key.Value, key, node, value.Interface().(T)})
}

// Element returns the type of the values of a NamedList type, if t is one.
func Element(t reflect.Type) (reflect.Type, bool) {
	if l, ok := reflect.New(t).Interface().(namedList); ok {
		return l.element(), true
	}
	return nil, false
}

// Field is a key of a struct, as its tags say.
type Field struct {
	Name     string
	Index    []int
	Type     reflect.Type
	Doc      string
	Enum     []string
	Required bool
	Single   bool // a list that may be written as its one element
	Raw      bool // text that is taken as it stands
	Filled   bool // text that an expression may not leave empty
}

// Fields returns the keys of a struct type, embedded structs inlined, in the
// order of declaration. Fields without a yaml tag are not keys.
func Fields(t reflect.Type) []Field {
	var fields []Field
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			for _, inner := range Fields(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				fields = append(fields, inner)
			}
			continue
		}
		tag, ok := f.Tag.Lookup("yaml")
		if !ok || tag == "-" || !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		options := strings.Split(opts, ",")
		field := Field{Name: name, Index: []int{i}, Type: f.Type, Doc: f.Tag.Get("doc"),
			Required: slices.Contains(options, "required"), Single: slices.Contains(options, "single"), Raw: slices.Contains(options, "raw"), Filled: slices.Contains(options, "filled")}
		if e := f.Tag.Get("enum"); e != "" {
			field.Enum = strings.Split(e, "|")
		}
		fields = append(fields, field)
	}
	return fields
}
