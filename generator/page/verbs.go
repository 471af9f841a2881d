package page

import (
	"html/template"
	"reflect"
	"strings"
	"time"

	"rutter/runbooks/step"
	"rutter/runbooks/yamldoc"
)

// Verbs is the reference of what a step can do.
type Verbs struct {
	Frame
	Verbs []Verb
}

// Verb is one kind of step.
type Verb struct {
	Name, ID, Summary string
	Doc               template.HTML
	Fields            []VerbField
	Result            string
	Example           template.HTML
}

// VerbField is one key of a verb's arguments.
type VerbField struct {
	Name, Type, Doc string
	Values          []string
	Required        bool
}

// NewVerb describes a kind from its own value. highlight colours YAML.
func NewVerb(k *step.Kind, prose Prose, highlight func(yaml string) template.HTML) Verb {
	v := Verb{Name: k.Name, ID: k.Name, Doc: prose(k.Doc), Result: k.Result, Summary: firstSentence(k.Doc)}
	if k.Example != "" {
		v.Example = highlight(k.Example)
	}
	t := reflect.TypeOf(k.New())
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if k.Named || t.Kind() != reflect.Struct {
		return v
	}
	for _, f := range yamldoc.Fields(t) {
		v.Fields = append(v.Fields, VerbField{
			Name: f.Name, Type: typeWord(f.Type), Doc: f.Doc, Values: f.Enum, Required: f.Required,
		})
	}
	return v
}

// typeWord says what a key takes, in the words of the handbook.
func typeWord(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t == reflect.TypeFor[step.Strings]():
		return "text or list"
	case t == reflect.TypeFor[step.Condition]():
		return "CEL"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeWord(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "list"
	case reflect.Map, reflect.Struct:
		return "keys and values"
	case reflect.Interface:
		return "any value"
	}
	return "number"
}

// firstSentence returns the beginning of a text up to the end of a sentence.
func firstSentence(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n\n")
	s = strings.ReplaceAll(s, "\n", " ")
	if i := strings.Index(s, ". "); i >= 0 {
		s = s[:i+1]
	}
	return strings.ReplaceAll(s, "`", "")
}
