package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// parallel is how many requests a verb has under way at once: enough to hide
// the way to the server and back, few enough for its fairness limits.
const parallel = 16

// each calls fn for every item, several at once, and returns the first error in
// the order of the items. One that fails does not keep the others from being
// tried, so that what can be done is done.
func each[T any](ctx context.Context, items []T, fn func(ctx context.Context, i int, item T) error) error {
	errs := make([]error, len(items))
	var g errgroup.Group
	g.SetLimit(parallel)
	for i, item := range items {
		if ctx.Err() != nil {
			errs[i] = context.Cause(ctx)
			break
		}
		g.Go(func() error {
			errs[i] = fn(ctx, i, item)
			return nil
		})
	}
	_ = g.Wait() // each error is kept at its item
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
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
	if err := errors.Join(errs...); err != nil {
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
	if n := len(w.left); n > 0 && w.host != nil {
		w.host.Progress(fmt.Sprintf("%d of %s still there", n, res))
	}
	return done
}

// stuck is the error of a wait that ran out of time.
func (w *goneWait) stuck(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := make([]string, 0, len(w.left))
	for _, f := range w.left {
		lines = append(lines, "    "+f.Ref.String()+": "+held(f.Object))
	}
	slices.Sort(lines)
	const most = 20
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("    … and %d more", len(w.left)-most))
	}
	return fmt.Errorf("still there (%w):\n%s", context.Cause(ctx), strings.Join(lines, "\n"))
}

// held says what keeps an object.
func held(o *unstructured.Unstructured) string {
	switch fs := o.GetFinalizers(); {
	case o.GetDeletionTimestamp() == nil:
		return "not being deleted"
	case len(fs) > 0:
		return "being deleted, held by " + strings.Join(fs, ", ")
	}
	return "being deleted"
}

// ignoreGone turns "it is not there" and "it is another one by now" into nil.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// refNames returns references as text.
func refNames(found []Found) []any {
	out := make([]any, len(found))
	for i, f := range found {
		out[i] = f.Ref.String()
	}
	return out
}
