package step

import (
	"context"
	"errors"
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
	Namespace     string  `yaml:"namespace" doc:"The namespace to look in. Without it the objects are cluster-scoped, or allNamespaces is set."`
	AllNamespaces bool    `yaml:"allNamespaces" doc:"Look in every namespace."`
	Name          string  `yaml:"name" doc:"The one object of this name."`
	Selector      string  `yaml:"selector" doc:"Objects with these labels, as kubectl -l takes them."`
	FieldSelector string  `yaml:"fieldSelector" doc:"Objects with these fields, as kubectl --field-selector takes them."`
	IfServed      bool    `yaml:"ifServed" doc:"Treat a resource that the cluster does not serve as having no objects, instead of failing."`
}

// check reports arguments that contradict each other.
func (t *Target) check() []Problem {
	var ps []Problem
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
	if t.Name != "" && len(t.Resource) > 1 {
		ps = append(ps, Problem{"name", "a name needs one resource, not a list", "use one step for each resource"})
	}
	return ps
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
	var found []Found
	for _, q := range qs {
		if err := t.scope(ctx, r, q.Resource); err != nil {
			if t.IfServed && errors.Is(err, ErrNotServed) {
				continue
			}
			return nil, err
		}
		objs, err := lookUp(ctx, r, q)
		if err != nil {
			return nil, err
		}
		for _, o := range objs {
			found = append(found, Found{RefOf(q.Resource, o), o})
		}
	}
	return found, nil
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

// kubectl returns a command on the target: kubectl, the verb, what to work on
// and where, and then the flags.
func (t *Target) kubectl(verb string, flags ...string) []string {
	words := append([]string{"kubectl"}, strings.Fields(verb)...)
	words = append(words, strings.Join(t.Resource, ","))
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
