package step

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// kindName is what a verb may be called: it is a key that authors type.
var kindName = regexp.MustCompile(`^[a-z][a-zA-Z]*$`)

// Validate reports what is wrong with a list of kinds, all of it at once: a
// name that is missing, taken or hard to type, a part of the reference page
// that was left out, an argument without a key or without a description.
func Validate(kinds []*Kind) error {
	var errs []error
	seen := map[string]bool{}
	for _, k := range kinds {
		switch {
		case !kindName.MatchString(k.Name):
			errs = append(errs, fmt.Errorf("kind %q: a name is letters, the first one small", k.Name))
		case seen[k.Name]:
			errs = append(errs, fmt.Errorf("kind %s: there are two of them", k.Name))
		}
		seen[k.Name] = true
		errs = append(errs, k.validate()...)
	}
	return errors.Join(errs...)
}

func (k *Kind) validate() []error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("kind %s: "+format, append([]any{k.Name}, args...)...))
	}
	if strings.TrimSpace(k.Doc) == "" {
		bad("no Doc")
	}
	if !strings.HasPrefix(k.Example, "- id: ") || !strings.Contains(k.Example, "\n  "+k.Name+":") || !strings.HasSuffix(k.Example, "\n") {
		bad("the Example is not a step with the verb, one item of a list")
	}
	if k.New == nil {
		bad("no New")
		return errs
	}
	action := k.New()
	t := reflect.TypeOf(action)
	if t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(action).IsNil() {
		bad("New does not return a pointer to arguments, but a %T", action)
		return errs
	}
	if k.New() == action && t.Elem().Size() > 0 {
		bad("New returns the same arguments twice")
	}
	for _, problem := range untagged(t.Elem(), t.Elem().Name()) {
		bad("%s", problem)
	}
	return errs
}

// untagged lists the fields below a type that an author could not set, or
// would find undescribed. Types that are decoded as a whole have none.
func untagged(t reflect.Type, path string) []string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return untagged(t.Elem(), path)
	case reflect.Struct:
	default:
		return nil
	}
	if t == reflect.TypeFor[Condition]() {
		return nil
	}
	var problems []string
	for i := range t.NumField() {
		f := t.Field(i)
		at := path + "." + f.Name
		switch name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); {
		case f.Anonymous:
		case !f.IsExported():
			continue
		case name == "":
			problems = append(problems, at+" has no yaml tag")
		case strings.TrimSpace(f.Tag.Get("doc")) == "":
			problems = append(problems, at+" has no doc tag")
		}
		problems = append(problems, untagged(f.Type, at)...)
	}
	return problems
}
