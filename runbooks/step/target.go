package step

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Strings is one string or a list of them, as the author likes.
type Strings []string

// Target says which objects a verb works on. It is embedded in the arguments
// of the verbs that work on objects, so that all of them select alike.
type Target struct {
	Resource      Strings `yaml:"resource,required,single" doc:"What kind of object, as kubectl names it: plural.group, such as pods or deployments.apps. Several may be listed."`
	Namespace     string  `yaml:"namespace,filled" doc:"The namespace to look in. Without it the objects are cluster-scoped, or allNamespaces is set."`
	AllNamespaces bool    `yaml:"allNamespaces" doc:"Look in every namespace."`
	Name          string  `yaml:"name,filled" doc:"The one object of this name."`
	Selector      string  `yaml:"selector,filled" doc:"Objects with these labels, as kubectl -l takes them."`
	FieldSelector string  `yaml:"fieldSelector,filled" doc:"Objects with these fields, as kubectl --field-selector takes them."`
	IfServed      bool    `yaml:"ifServed" doc:"Treat a resource that the cluster does not serve as having no objects, instead of failing."`
}

// nameRE is what an object can be called at most: not a flag of kubectl, and
// not a part of a URL. Roles may hold colons and other odd things.
var nameRE = regexp.MustCompile(`^([^-/%\s\x00][^/%\x00]*)?$`)

// check reports arguments that contradict each other.
func (t *Target) check() []Problem {
	var ps []Problem
	if len(t.Resource) == 0 {
		ps = append(ps, Problem{"resource", "resource is an empty list", "name at least one"})
	}
	for _, r := range t.Resource {
		if _, err := ParseResource(r); err != nil && !HasMark(r) {
			ps = append(ps, Problem{"resource", err.Error(), ""})
		}
	}
	if t.Namespace != "" && t.AllNamespaces {
		ps = append(ps, Problem{"allNamespaces", "namespace and allNamespaces exclude each other", "drop one of them"})
	}
	if t.Name != "" && t.AllNamespaces {
		ps = append(ps, Problem{"name", "a name needs one namespace, not all of them", "use fieldSelector: metadata.name=…"})
	}
	if t.Name != "" && (t.Selector != "" || t.FieldSelector != "") {
		ps = append(ps, Problem{"name", "name and a selector exclude each other", "drop one of them"})
	}
	if !HasMark(t.Name) && !nameRE.MatchString(t.Name) {
		ps = append(ps, Problem{"name", strconv.Quote(t.Name) + " cannot be the name of an object", "names are letters, digits, dots, dashes and colons"})
	}
	if !HasMark(t.Namespace) && !nameRE.MatchString(t.Namespace) {
		ps = append(ps, Problem{"namespace", strconv.Quote(t.Namespace) + " cannot be a namespace", "names are letters, digits and dashes"})
	}
	if t.Name != "" && len(t.Resource) > 1 {
		ps = append(ps, Problem{"name", "a name needs one resource, not a list", "use one step for each resource"})
	}
	return ps
}

// narrowed reports whether something selects among the objects.
func (t *Target) narrowed() bool { return t.Name != "" || t.Selector != "" || t.FieldSelector != "" }

// refuse returns the problems of an action as an error. Problems are reported
// when a file is read; but what an expression turned into is known only now,
// and an empty name must not become "all of them".
func refuse(c Checker) error {
	var errs []error
	for _, p := range c.Check() {
		errs = append(errs, errors.New(p.Message))
	}
	return errors.Join(errs...)
}

// queries returns one query for each resource.
func (t *Target) queries() ([]Query, error) {
	qs := make([]Query, len(t.Resource))
	for i, r := range t.Resource {
		res, err := ParseResource(r)
		if err != nil {
			return nil, err
		}
		qs[i] = Query{Resource: res, Namespace: t.Namespace, Name: t.Name, Selector: t.Selector, Fields: t.FieldSelector}
	}
	return qs, nil
}

// find returns what matches now, each with its reference, in the order of the
// resources. Nothing found is no error.
func (t *Target) find(ctx context.Context, r Reader) ([]Found, error) {
	qs, err := t.queries()
	if err != nil {
		return nil, err
	}
	lists := make([][]Found, len(qs))
	err = each(ctx, qs, func(ctx context.Context, i int, q Query) error {
		var err error
		lists[i], err = t.findOne(ctx, r, q)
		return err
	})
	return slices.Concat(lists...), err
}

func (t *Target) findOne(ctx context.Context, r Reader, q Query) ([]Found, error) {
	err := t.scope(ctx, r, q.Resource)
	if t.IfServed && errors.Is(err, ErrNotServed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	objs, err := lookUp(ctx, r, q)
	found := make([]Found, len(objs))
	for i, o := range objs {
		found[i] = Found{RefOf(q.Resource, o), o}
	}
	return found, err
}

// Found is an object and how it was found.
type Found struct {
	Ref    Ref
	Object *unstructured.Unstructured
}

// lookUp gets a named object, or lists. A named object that is not there is an
// empty list.
func lookUp(ctx context.Context, r Reader, q Query) ([]*unstructured.Unstructured, error) {
	if q.Name == "" {
		return r.List(ctx, q)
	}
	o, err := r.Get(ctx, Ref{Resource: q.Resource, Namespace: q.Namespace, Name: q.Name})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []*unstructured.Unstructured{o}, nil
}

// scope refuses a namespaced resource without a namespace, and the reverse,
// where the cluster's answer would otherwise be about other objects than meant.
func (t *Target) scope(ctx context.Context, r Reader, res Resource) error {
	served, err := r.Resolve(ctx, res)
	if err != nil {
		return err
	}
	switch {
	case served.Namespaced && t.Namespace == "" && !t.AllNamespaces:
		return errors.New(res.String() + " live in namespaces: set namespace, or allNamespaces: true")
	case !served.Namespaced && t.Namespace != "":
		return errors.New(res.String() + " are cluster-scoped: drop namespace")
	}
	return nil
}

// permissions returns what reading or writing the target asks for.
func (t *Target) permissions(verbs ...string) []Permission {
	var ps []Permission
	for _, r := range t.Resource {
		if res, err := ParseResource(r); err == nil {
			ps = append(ps, permit(res, t.Namespace, t.Name, verbs...)...)
		}
	}
	return ps
}

// apart returns one target for each resource.
func (t *Target) apart() []*Target {
	ts := make([]*Target, len(t.Resource))
	for i, res := range t.Resource {
		one := *t
		one.Resource = Strings{res}
		ts[i] = &one
	}
	return ts
}

// lines returns a command on the target, or one for each resource where some
// may not be served: kubectl does nothing at all if it does not know one.
func (t *Target) lines(verb string, flags ...string) []Line {
	if !t.IfServed {
		return []Line{{Words: t.kubectl(verb, flags...)}}
	}
	var lines []Line
	for _, one := range t.apart() {
		lines = append(lines, Line{Words: one.kubectl(verb, flags...)})
	}
	if len(lines) > 0 {
		lines[0].Note = "where the server doesn't have a resource type, there is nothing of it"
	}
	return lines
}

// kubectl returns a command on the target: kubectl, the verb, what to work on
// and where, and then the flags.
func (t *Target) kubectl(verb string, flags ...string) []string {
	words := append([]string{"kubectl"}, strings.Fields(verb)...)
	words = append(words, strings.Join(typed(t.Resource), ","))
	if t.Name != "" {
		words = append(words, t.Name)
	}
	switch {
	case t.AllNamespaces:
		words = append(words, "-A")
	case t.Namespace != "":
		words = append(words, "-n", t.Namespace)
	}
	if t.Selector != "" {
		words = append(words, "-l", t.Selector)
	}
	if t.FieldSelector != "" {
		words = append(words, "--field-selector", t.FieldSelector)
	}
	return append(words, flags...)
}

// typed returns resources as kubectl takes them.
func typed(resources []string) []string {
	out := make([]string, len(resources))
	for i, r := range resources {
		out[i] = r
		if res, err := ParseResource(r); err == nil {
			out[i] = res.String()
		}
	}
	return out
}

// rows is what a loop reads of each object besides its namespace and name.
type rows struct {
	// before and after are the parts of the template around a row.
	before, after string
	// name is the shell variable for value, both "" if there is none.
	name, value string
}

// perObject returns lines that run a kubectl command for each object, one loop
// for each resource. The name comes last, as it alone may hold spaces.
func (t *Target) perObject(r rows, verb string, flags ...string) []Line {
	var lines []Line
	for _, one := range t.apart() {
		if one.Name != "" {
			// A list of one: nothing at all is printed if there is none.
			one.Name, one.FieldSelector = "", "metadata.name="+one.Name
		}
		do := []string{"kubectl", verb, typed(one.Resource)[0], Mark(RowMark, "name")}
		var vars, values []string
		switch {
		case t.AllNamespaces:
			// What is cluster-scoped has none, and kubectl then ignores -n.
			vars, values = append(vars, "namespace"), append(values, `{{or .metadata.namespace "default"}}`)
			do = append(do, "-n", Mark(RowMark, "namespace"))
		case t.Namespace != "":
			do = append(do, "-n", t.Namespace)
		}
		if r.name != "" {
			vars, values = append(vars, r.name), append(values, r.value)
		}
		vars, values = append(vars, "name"), append(values, "{{.metadata.name}}")
		template := "{{range .items}}" + r.before + strings.Join(values, " ") + `{{"\n"}}` + r.after + "{{end}}"
		lines = append(lines, Line{Words: one.kubectl("get", "-o", "go-template="+template),
			Each: &Loop{Vars: vars, Do: []Line{{Words: append(do, flags...)}}}})
	}
	return lines
}

// what names the target in a sentence.
func (t *Target) what() string {
	s := strings.Join(t.Resource, ", ")
	if t.Name != "" {
		s += " " + t.Name
	}
	if t.Selector != "" {
		s += " with " + t.Selector
	}
	if t.FieldSelector != "" {
		s += " where " + t.FieldSelector
	}
	switch {
	case t.AllNamespaces:
		s += " in all namespaces"
	case t.Namespace != "":
		s += " in " + t.Namespace
	}
	return s
}
