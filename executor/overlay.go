package executor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rutter/runbooks/step"
)

// errPlanned means that a plan cannot ask the server about an object, because
// a step of the plan would make it.
var errPlanned = fmt.Errorf("it is made by an earlier step of the plan")

// overlay is a cluster as it would be after the steps planned so far: reads go
// to the cluster and the planned changes are laid over them. So a later step
// finds the objects that an earlier one would have left being deleted, and
// the plan does not say that there is nothing to do. Controllers are not
// played: what they would do meanwhile is for the run to see.
type overlay struct {
	step.Reader
	mu      sync.Mutex
	changes map[objectKey]*unstructured.Unstructured // nil is gone
	gone    map[string]bool                          // namespaces being deleted
	now     metav1.Time
}

type objectKey struct {
	resource        step.Resource
	namespace, name string
}

func newOverlay(r step.Reader) *overlay {
	return &overlay{Reader: r, changes: map[objectKey]*unstructured.Unstructured{}, gone: map[string]bool{}, now: metav1.NewTime(time.Unix(0, 0))}
}

func keyOf(ref step.Ref) objectKey {
	return objectKey{ref.Resource.Unversioned(), ref.Namespace, ref.Name}
}

// add lays a planned change over the cluster.
func (o *overlay) add(c step.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := keyOf(c.Object)
	if c.Op != step.OpDelete {
		if c.After != nil {
			o.changes[key] = settle(c.After)
		}
		return
	}
	if c.Object.Resource.Plural == "namespaces" && c.Object.Resource.Group == "" {
		o.gone[c.Object.Name] = true
	}
	o.changes[key] = o.deleted(c.Before)
}

// deleted is an object after a delete: gone, or waiting for its finalizers.
func (o *overlay) deleted(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj == nil || len(obj.GetFinalizers()) == 0 && !isNamespace(obj) {
		return nil
	}
	c := obj.DeepCopy()
	if c.GetDeletionTimestamp() == nil {
		c.SetDeletionTimestamp(&o.now)
	}
	return c
}

// settle is an object after a patch: gone if that took its last finalizer
// while it was being deleted.
func settle(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && !isNamespace(obj) {
		return nil
	}
	return obj
}

func isNamespace(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}
}

// view is an object as it would be, nil if gone.
func (o *overlay) view(res step.Resource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	if changed, ok := o.changes[keyOf(step.RefOf(res, obj))]; ok {
		return changed
	}
	if o.gone[obj.GetNamespace()] && obj.GetNamespace() != "" {
		return o.deleted(obj)
	}
	return obj
}

// Get reads an object as it would be.
func (o *overlay) Get(ctx context.Context, ref step.Ref) (*unstructured.Unstructured, error) {
	o.mu.Lock()
	changed, ok := o.changes[keyOf(ref)]
	o.mu.Unlock()
	if ok && changed != nil {
		return changed, nil
	}
	obj, err := o.Reader.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if obj = o.view(ref.Resource, obj); obj == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: ref.Resource.Group, Resource: ref.Resource.Plural}, ref.Name)
	}
	return obj, nil
}

// List reads what would match. Objects that the plan would make are added if
// their labels match; fields of theirs are not looked at.
func (o *overlay) List(ctx context.Context, q step.Query) ([]*unstructured.Unstructured, error) {
	objs, err := o.Reader.List(ctx, q)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []*unstructured.Unstructured
	seen := map[objectKey]bool{}
	for _, obj := range objs {
		seen[keyOf(step.RefOf(q.Resource, obj))] = true
		if v := o.view(q.Resource, obj); v != nil {
			out = append(out, v)
		}
	}
	made, err := o.made(q, seen)
	return append(out, made...), err
}

func (o *overlay) made(q step.Query, seen map[objectKey]bool) ([]*unstructured.Unstructured, error) {
	selector, err := labels.Parse(q.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector %q: %w", q.Selector, err)
	}
	var out []*unstructured.Unstructured
	for key, obj := range o.changes {
		if obj == nil || seen[key] || key.resource != q.Resource.Unversioned() || q.Fields != "" ||
			q.Namespace != "" && q.Namespace != key.namespace || q.Name != "" && q.Name != key.name ||
			!selector.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		out = append(out, obj)
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		if a.GetNamespace()+"/"+a.GetName() < b.GetNamespace()+"/"+b.GetName() {
			return -1
		}
		return 1
	})
	return out, nil
}

// DryRun asks the server, unless the object is only planned.
func (o *overlay) DryRun(ctx context.Context, w step.Write) (*unstructured.Unstructured, error) {
	after, err := o.Reader.DryRun(ctx, w)
	if apierrors.IsNotFound(err) {
		o.mu.Lock()
		_, planned := o.changes[keyOf(w.Ref)]
		o.mu.Unlock()
		if planned || o.changes[objectKey{step.Resource{Plural: "namespaces"}, "", w.Ref.Namespace}] != nil {
			return nil, errPlanned
		}
	}
	return after, err
}
