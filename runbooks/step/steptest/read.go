package steptest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"rutter/runbooks/step"
)

// Resolve tells how a resource is served. It needs no permission.
func (c *Cluster) Resolve(ctx context.Context, res step.Resource) (step.Served, error) {
	if err := ctx.Err(); err != nil {
		return step.Served{}, err
	}
	if err := c.enter(Call{Verb: "resolve", Ref: step.Ref{Resource: res}}); err != nil {
		return step.Served{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.defOf(res)
	if d == nil {
		return step.Served{}, notServed(res)
	}
	version := cmp.Or(res.Version, d.versions[0])
	return step.Served{Version: version, Kind: d.kind, Namespaced: d.namespaced}, nil
}

// Get reads one object.
func (c *Cluster) Get(ctx context.Context, ref step.Ref) (*unstructured.Unstructured, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.enter(Call{Verb: "get", Ref: ref}, permission("get", ref, "")); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(ref)
}

func (c *Cluster) get(ref step.Ref) (*unstructured.Unstructured, error) {
	d, err := c.scoped(ref.Resource, ref.Namespace, true)
	if err != nil {
		return nil, err
	}
	_, s := c.find(ref)
	if s == nil {
		return nil, apierrors.NewNotFound(groupResource(ref.Resource), ref.Name)
	}
	return d.as(ref.Resource, s.obj), nil
}

// List reads all objects that match.
func (c *Cluster) List(ctx context.Context, q step.Query) ([]*unstructured.Unstructured, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.enter(Call{Verb: "list", Ref: queryRef(q), Query: q}, permission("list", queryRef(q), "")); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list(q)
}

func (c *Cluster) list(q step.Query) ([]*unstructured.Unstructured, error) {
	d, err := c.scoped(q.Resource, q.Namespace, false)
	if err != nil {
		return nil, err
	}
	byLabel, err := labels.Parse(q.Selector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := d.fieldSelector(q.Fields)
	if err != nil {
		return nil, err
	}
	objs := []*unstructured.Unstructured{}
	for _, k := range c.keys(d) {
		o := c.store[d.resource][k].obj
		if (q.Namespace == "" || q.Namespace == k.namespace) && (q.Name == "" || q.Name == k.name) &&
			byLabel.Matches(labels.Set(o.GetLabels())) && byField.Matches(fieldsOf(d, o)) {
			objs = append(objs, d.as(q.Resource, o))
		}
	}
	return objs, nil
}

// Follow calls fn now and after each change of what matches.
func (c *Cluster) Follow(ctx context.Context, q step.Query, fn func([]*unstructured.Unstructured) (bool, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ref := queryRef(q)
	err := c.enter(Call{Verb: "watch", Ref: ref, Query: q}, permission("list", ref, ""), permission("watch", ref, ""))
	if err != nil {
		return err
	}
	var last []string
	for first := true; ; first = false {
		c.mu.Lock()
		objs, err := c.list(q)
		changed := c.changed
		c.mu.Unlock()
		if err != nil {
			return err
		}
		if now := versions(objs); first || !slices.Equal(now, last) {
			last = now
			if done, err := fn(objs); done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func versions(objs []*unstructured.Unstructured) []string {
	vs := make([]string, len(objs))
	for i, o := range objs {
		vs[i] = string(o.GetUID()) + "@" + o.GetResourceVersion()
	}
	return vs
}

// scoped finds the resource and refuses a namespace where there is none, and
// for a single object also the reverse.
func (c *Cluster) scoped(res step.Resource, namespace string, one bool) (*def, error) {
	d := c.defOf(res)
	switch {
	case d == nil:
		return nil, notServed(res)
	case namespace != "" && !d.namespaced:
		return nil, fmt.Errorf("%s are cluster-scoped, but namespace %s was given", res, namespace)
	case one && namespace == "" && d.namespaced:
		return nil, fmt.Errorf("%s live in namespaces, but none was given", res)
	}
	return d, nil
}

// as returns a copy of o in the version that was asked for.
func (d *def) as(res step.Resource, o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	version := cmp.Or(res.Version, d.versions[0])
	if d.resource.Group != "" {
		version = d.resource.Group + "/" + version
	}
	o.SetAPIVersion(version)
	return o
}

// fieldNames are the fields that can be selected on besides name and namespace.
var fieldNames = map[step.Resource][][]string{
	{Plural: "pods"}: {
		{"spec", "nodeName"}, {"spec", "restartPolicy"}, {"spec", "schedulerName"}, {"spec", "serviceAccountName"},
		{"status", "phase"}, {"status", "podIP"}, {"status", "nominatedNodeName"},
	},
	{Plural: "nodes"}:      {{"spec", "unschedulable"}},
	{Plural: "namespaces"}: {{"status", "phase"}},
	{Plural: "secrets"}:    {{"type"}},
	{Plural: "events"}: {
		{"involvedObject", "kind"}, {"involvedObject", "namespace"}, {"involvedObject", "name"}, {"involvedObject", "uid"},
		{"involvedObject", "apiVersion"}, {"involvedObject", "resourceVersion"}, {"involvedObject", "fieldPath"},
		{"reason"}, {"reportingComponent"}, {"source"}, {"type"},
	},
}

func (d *def) fieldSelector(s string) (fields.Selector, error) {
	sel, err := fields.ParseSelector(s)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	known := fieldsOf(d, &unstructured.Unstructured{Object: map[string]any{}})
	for _, r := range sel.Requirements() {
		if _, ok := known[r.Field]; !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return sel, nil
}

func fieldsOf(d *def, o *unstructured.Unstructured) fields.Set {
	set := fields.Set{"metadata.name": o.GetName()}
	if d.namespaced {
		set["metadata.namespace"] = o.GetNamespace()
	}
	for _, path := range fieldNames[d.resource] {
		v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
		if v == nil {
			v = ""
		}
		set[joinPath(path)] = fmt.Sprint(v)
	}
	return set
}

func queryRef(q step.Query) step.Ref {
	ref := step.Ref{Resource: q.Resource, Namespace: q.Namespace, Name: q.Name}
	if ref.Name == "" {
		if sel, err := fields.ParseSelector(q.Fields); err == nil {
			ref.Name, _ = sel.RequiresExactMatch("metadata.name")
		}
	}
	return ref
}

func permission(verb string, ref step.Ref, subresource string) step.Permission {
	return step.Permission{
		Verb: verb, Resource: ref.Resource.Unversioned(), Subresource: subresource,
		Namespace: ref.Namespace, Name: ref.Name,
	}
}

func notServed(res step.Resource) error { return fmt.Errorf("%s: %w", res, step.ErrNotServed) }
