package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// parallel is how many requests a verb has under way at once: enough to hide
// the way to the server and back, few enough for its fairness limits.
const parallel = 16

// mostErrors is how many requests may fail before no more are made: what is
// wrong with the twentieth object is wrong with the thousandth.
const mostErrors = 20

// each calls fn for every item, several at once, and returns the errors in the
// order of the items. One that fails does not keep the others from being tried,
// so that what can be done is done.
func each[T any](ctx context.Context, items []T, fn func(ctx context.Context, i int, item T) error) error {
	errs := make([]error, len(items))
	var failed atomic.Int64
	var g errgroup.Group
	g.SetLimit(parallel)
	for i, item := range items {
		if failed.Load() >= mostErrors {
			break
		}
		if ctx.Err() != nil {
			errs[i] = context.Cause(ctx)
			break
		}
		g.Go(func() error {
			if errs[i] = fn(ctx, i, item); errs[i] != nil {
				failed.Add(1)
			}
			return nil
		})
	}
	_ = g.Wait() // each error is kept at its item
	return joined(errs)
}

// joined returns the first few different errors as one, nil if there is none.
func joined(errs []error) error {
	const most = 5
	var some []error
	seen := map[string]bool{}
	for _, err := range errs {
		if err != nil && !seen[err.Error()] {
			seen[err.Error()] = true
			some = append(some, err)
		}
	}
	switch n := len(some); {
	case n == 1:
		return some[0]
	case n > most:
		some = append(some[:most], fmt.Errorf("and %d more", n-most))
	}
	return errors.Join(some...)
}

// waitGone waits until none of the objects is there any more, told by UID. An
// object made anew under an old name is returned as recreated. When ctx ends
// the error lists what remains and what holds it.
func waitGone(ctx context.Context, r Reader, h Host, found []Found) (recreated []string, err error) {
	groups := map[Resource][]Found{}
	var order []Resource
	for _, f := range found {
		if _, ok := groups[f.Ref.Resource]; !ok {
			order = append(order, f.Ref.Resource)
		}
		groups[f.Ref.Resource] = append(groups[f.Ref.Resource], f)
	}
	w := &goneWait{host: h, left: map[types.UID]Found{}, again: map[string]bool{}}
	for _, f := range found {
		w.left[f.Ref.UID] = f
	}
	errs := make([]error, len(order))
	var g errgroup.Group
	for i, res := range order {
		g.Go(func() error {
			errs[i] = w.resource(ctx, r, res, groups[res])
			return nil
		})
	}
	_ = g.Wait() // each error is kept at its resource
	for n := range w.again {
		recreated = append(recreated, n)
	}
	slices.Sort(recreated)
	if err := joined(errs); err != nil {
		if ctx.Err() != nil {
			return recreated, w.stuck(ctx)
		}
		return recreated, err
	}
	return recreated, nil
}

type goneWait struct {
	host  Host
	mu    sync.Mutex
	left  map[types.UID]Found
	again map[string]bool
}

// resource follows one resource until those of its objects are gone.
func (w *goneWait) resource(ctx context.Context, r Reader, res Resource, mine []Found) error {
	q := Query{Resource: res, Namespace: mine[0].Ref.Namespace}
	for _, f := range mine {
		if f.Ref.Namespace != q.Namespace {
			q.Namespace = ""
		}
	}
	if len(mine) == 1 {
		q.Name = mine[0].Ref.Name
	}
	names := map[[2]string]types.UID{}
	for _, f := range mine {
		names[[2]string{f.Ref.Namespace, f.Ref.Name}] = f.Ref.UID
	}
	err := r.Follow(ctx, q, func(objs []*unstructured.Unstructured) (bool, error) {
		return w.state(res, mine, names, objs), nil
	})
	if errors.Is(err, ErrNotServed) {
		return nil // the resource went, and its objects with it
	}
	return err
}

func (w *goneWait) state(res Resource, mine []Found, names map[[2]string]types.UID, objs []*unstructured.Unstructured) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := map[types.UID]*unstructured.Unstructured{}
	for _, o := range objs {
		there[o.GetUID()] = o
		if old, ok := names[[2]string{o.GetNamespace(), o.GetName()}]; ok && old != o.GetUID() {
			w.again[RefOf(res, o).String()] = true
		}
	}
	done := true
	for _, f := range mine {
		if now, ok := there[f.Ref.UID]; ok {
			w.left[f.Ref.UID] = Found{f.Ref, now}
			done = false
		} else {
			delete(w.left, f.Ref.UID)
		}
	}
	if len(w.left) > 0 {
		w.host.Progress("still there: " + firstOf(w.lines()))
	}
	return done
}

// lines says of each object that is left what holds it, in order.
func (w *goneWait) lines() []string {
	lines := make([]string, 0, len(w.left))
	for _, f := range w.left {
		lines = append(lines, f.Ref.String()+": "+held(f.Object))
	}
	slices.Sort(lines)
	return lines
}

// stuck is the error of a wait that ran out of time.
func (w *goneWait) stuck(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Errorf("still there (%w):\n    %s", context.Cause(ctx), strings.Join(someOf(w.lines(), 20), "\n    "))
}

// firstOf is a list in one short line.
func firstOf(list []string) string { return strings.Join(someOf(list, 3), ", ") }

// someOf returns the first of a list and how many more there are.
func someOf(list []string, most int) []string {
	if len(list) <= most {
		return list
	}
	return append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
}

// held says what keeps an object.
func held(o *unstructured.Unstructured) string {
	s := "being deleted"
	if o.GetDeletionTimestamp() == nil {
		s = "not being deleted"
	}
	if fs := o.GetFinalizers(); len(fs) > 0 && o.GetDeletionTimestamp() != nil {
		s += ", held by " + strings.Join(fs, ", ")
	}
	for _, trouble := range namespaceTroubles(o) {
		s += "; " + trouble
	}
	return s
}

// refNames returns references as text.
func refNames(found []Found) []any {
	out := make([]any, len(found))
	for i, f := range found {
		out[i] = f.Ref.String()
	}
	return out
}
