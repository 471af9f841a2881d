package step

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// vigil is a wait under way. Its resources are followed at once; each new state
// is judged as a whole, and one loop decides when it is over.
type vigil struct {
	wait    *wait
	host    Host
	hold    time.Duration
	changed chan struct{} // has an entry when there is something to look at

	mu      sync.Mutex
	states  [][]*unstructured.Unstructured // by resource; nil until it is seen
	seen    []bool
	first   map[types.UID]bool   // what a wait for gone waits for
	holding map[string]types.UID // the objects by name while the state is right
	there   bool                 // whether there ever was an object
	trouble []error              // why resources were not seen to the end
	missing string
	failure error
	since   time.Time // when the state began to be right; zero while it is not
}

func newVigil(w *wait, h Host, resources int, hold time.Duration) *vigil {
	return &vigil{wait: w, host: h, hold: hold, changed: make(chan struct{}, 1),
		states: make([][]*unstructured.Unstructured, resources), seen: make([]bool, resources)}
}

// keep returns the objects when the state has held for long enough.
func (v *vigil) keep(ctx context.Context, r Reader, qs []Query) ([]*unstructured.Unstructured, error) {
	follow, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for i, q := range qs {
		running.Go(func() { v.follow(follow, r, i, q) })
	}
	var err error
	for held := false; !held && err == nil; {
		if err = v.watch(ctx); err == nil {
			held, err = v.confirm(ctx, r)
		}
	}
	cancel()
	running.Wait()
	switch {
	case err == nil:
		return v.all(), nil
	case ctx.Err() != nil && v.missing == "" && len(v.trouble) > 0:
		return nil, fmt.Errorf("%w: %w", err, joined(v.trouble))
	}
	return nil, err
}

func (v *vigil) follow(ctx context.Context, r Reader, i int, q Query) {
	err := r.Follow(ctx, q, func(objs []*unstructured.Unstructured) (bool, error) {
		v.update(ctx, i, objs)
		return false, nil
	})
	switch {
	case ctx.Err() != nil:
		v.mu.Lock()
		defer v.mu.Unlock()
		if !v.seen[i] && err != nil {
			v.trouble = append(v.trouble, err)
		}
	case errors.Is(err, ErrNotServed) && (v.wait.Gone || v.wait.IfServed):
		v.update(ctx, i, nil) // a resource that is not served has no objects
	default:
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.failure == nil {
			v.failure = err
		}
		v.signal()
	}
}

// signal wakes the loop that watches.
func (v *vigil) signal() {
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

func (v *vigil) all() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, objs := range v.states {
		all = append(all, objs...)
	}
	return all
}

// update takes a new state of one resource, and judges once all are known.
func (v *vigil) update(ctx context.Context, i int, objs []*unstructured.Unstructured) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.states[i], v.seen[i] = objs, true
	for _, ok := range v.seen {
		if !ok {
			return
		}
	}
	ok, missing := v.judge(ctx)
	all := v.all()
	if v.there = v.there || len(all) > 0; v.there && missing == neverAppeared {
		missing = "it was there, and is gone"
	}
	v.missing = missing
	if ok && v.replaced(all) {
		v.since = time.Time{}
	}
	switch {
	case !ok:
		v.since = time.Time{}
		if err := v.wait.failed(ctx, all); err != nil && v.failure == nil {
			v.failure = err
		}
		v.host.Progress(missing)
	case v.since.IsZero():
		v.since = time.Now()
		if v.hold > 0 {
			v.host.Progress("it is so; watching that it stays so for " + v.hold.String())
		}
	}
	v.signal()
}

// replaced notes the objects of a state that is right, and reports whether one
// of them has taken the name of another: its time begins anew.
func (v *vigil) replaced(objs []*unstructured.Unstructured) bool {
	before := v.holding
	v.holding = map[string]types.UID{}
	again := false
	for _, o := range objs {
		name := o.GroupVersionKind().GroupKind().String() + " " + nameOf(o)
		v.holding[name] = o.GetUID()
		if uid, ok := before[name]; ok && uid != o.GetUID() {
			again = true
		}
	}
	return again
}

// judge tells whether the state is right. What is gone is told by UID, so that
// an object made anew does not stand for the old one; but nothing may come
// back where the state has to hold.
func (v *vigil) judge(ctx context.Context) (ok bool, missing string) {
	objs := v.all()
	if !v.wait.Gone || v.hold > 0 {
		return v.wait.judge(ctx, objs)
	}
	if v.first == nil {
		v.first = map[types.UID]bool{}
		for _, o := range objs {
			v.first[o.GetUID()] = true
		}
	}
	var left []*unstructured.Unstructured
	for _, o := range objs {
		if v.first[o.GetUID()] {
			left = append(left, o)
		}
	}
	return v.wait.judge(ctx, left)
}

// confirm looks once more after a state has held: the watch may have been
// blind for a part of the time.
func (v *vigil) confirm(ctx context.Context, r Reader) (bool, error) {
	if v.hold == 0 {
		return true, nil
	}
	found, err := v.wait.find(ctx, r)
	if v.wait.Gone && errors.Is(err, ErrNotServed) {
		found, err = nil, nil
	}
	if err != nil {
		return false, err
	}
	ok, missing := v.wait.judge(ctx, objects(found))
	v.mu.Lock()
	defer v.mu.Unlock()
	if !ok {
		v.since, v.missing = time.Time{}, missing
	}
	return ok, nil
}

// watch returns when the state has held for long enough, failed, or ctx ends.
func (v *vigil) watch(ctx context.Context) error {
	timer := time.NewTimer(v.hold)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return v.overdue(ctx)
		case <-v.changed:
		case <-timer.C:
		}
		v.mu.Lock()
		failure, since := v.failure, v.since
		v.mu.Unlock()
		switch left := v.hold - time.Since(since); {
		case failure != nil:
			return failure
		case since.IsZero():
			timer.Stop()
		case left <= 0:
			return nil
		default:
			timer.Reset(left)
		}
	}
}

// overdue is the error of a wait that ran out of time.
func (v *vigil) overdue(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !v.since.IsZero():
		return fmt.Errorf("it was so, but not for %s (%w)", v.hold, context.Cause(ctx))
	case v.missing == "":
		return fmt.Errorf("the cluster did not say (%w)", context.Cause(ctx))
	}
	return fmt.Errorf("%s (%w)", v.missing, context.Cause(ctx))
}
