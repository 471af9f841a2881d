package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/runbooks/step"
)

const (
	// watchTime is how long a watch is asked to last, at least; a lost
	// connection that nobody noticed costs no more than this.
	watchTime = 4 * time.Minute
	// shortWatch is how long a watch has to last to count as one. What ends
	// sooner, and brought nothing, is not trusted to see changes.
	shortWatch = time.Second
)

// Follow calls fn with the objects that match, ordered by namespace and name,
// now and after each change. It lists and then watches; what ends a watch or
// keeps it from starting is outlived for as long as ctx lasts, except for what
// cannot pass by itself: a resource that is not served, a missing permission,
// credentials that are no longer good. fn must not change the objects, which
// it gets again.
//
// When ctx ends the error wraps ctx.Err and says what went wrong last, if the
// objects could not be seen at the time.
func (c *Cluster) Follow(ctx context.Context, q step.Query, fn func([]*unstructured.Unstructured) (bool, error)) error {
	f := &follower{c: c, q: q, fn: fn}
	for {
		done, err := f.round(ctx)
		if done || f.final {
			return err
		}
		if ctx.Err() == nil || err != nil && !errors.Is(err, ctx.Err()) {
			f.trouble = err
		}
		if ctx.Err() != nil {
			return f.interrupted(ctx)
		}
		after, ok := transient(err)
		// A list tells whether what is not found is not served.
		if err != nil && !ok && code(err) != http.StatusGone && !isPlainNotFound(err) {
			return err
		}
		if pause(ctx, max(min(after, time.Minute), f.back.next())) != nil {
			return f.interrupted(ctx)
		}
	}
}

// follower is one Follow under way.
type follower struct {
	c       *Cluster
	q       step.Query
	fn      func([]*unstructured.Unstructured) (bool, error)
	back    backoff
	objs    map[string]*unstructured.Unstructured
	version string // "" to list before the next watch
	final   bool   // the error came from fn
	trouble error
	seen    bool
}

func (f *follower) interrupted(ctx context.Context) error {
	what := f.q.Resource.String()
	if f.q.Name != "" {
		what += "/" + f.q.Name
	}
	if f.trouble != nil {
		return fmt.Errorf("follow %s: %w; the last attempt failed: %w", what, ctx.Err(), f.trouble)
	}
	return fmt.Errorf("follow %s: %w", what, ctx.Err())
}

// call gives the present state to fn.
func (f *follower) call(objs []*unstructured.Unstructured) (bool, error) {
	f.trouble = nil
	done, err := f.fn(objs)
	f.final = err != nil
	return done, err
}

// round lists if need be, and watches until the watch ends for whatever
// reason. Without an error the reason is nothing to worry about.
func (f *follower) round(ctx context.Context) (done bool, err error) {
	if f.version == "" {
		if done, err := f.relist(ctx); done || err != nil {
			return done, err
		}
	}
	return f.watch(ctx)
}

func (f *follower) relist(ctx context.Context) (bool, error) {
	objs, version, err := f.c.list(ctx, f.q)
	if err != nil {
		return false, err
	}
	fresh := make(map[string]*unstructured.Unstructured, len(objs))
	for _, o := range objs {
		fresh[keyOf(o)] = o
	}
	same := f.seen && maps.EqualFunc(f.objs, fresh, func(a, b *unstructured.Unstructured) bool {
		return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
	})
	f.objs, f.version, f.seen = fresh, version, true
	if same {
		f.trouble = nil
		return false, nil
	}
	return f.call(sorted(fresh))
}

func keyOf(o *unstructured.Unstructured) string { return o.GetNamespace() + "\x00" + o.GetName() }

func sorted(objs map[string]*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.SortedFunc(maps.Values(objs), func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// watch follows from f.version on. One goroutine reads what comes, so that a
// slow fn holds up nobody, and is waited for before watch returns.
func (f *follower) watch(caller context.Context) (bool, error) {
	ctx, cancel := context.WithCancelCause(caller)
	defer cancel(nil)
	started := time.Now()
	stream, err := f.c.openWatch(caller, ctx, cancel, f.q, f.version)
	if err != nil {
		if code(err) == http.StatusGone || isPlainNotFound(err) {
			f.version = ""
		}
		return false, err
	}
	w := &watcher{objs: f.objs, version: f.version, wake: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil) // ends the read, before it is waited for
	wg.Go(func() { w.read(stream) })
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-w.wake:
		}
		changed, ended, events := f.take(w)
		if events {
			f.back.reset()
		}
		if changed {
			if done, err := f.call(sorted(f.objs)); done || err != nil {
				return done, err
			}
		}
		if ended != nil {
			return false, f.judge(ended, time.Since(started), events || w.everything)
		}
	}
}

// take copies what the reader knows.
func (f *follower) take(w *watcher) (changed bool, ended error, events bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if changed = w.changed; changed {
		f.objs = maps.Clone(w.objs)
	}
	f.version, events = w.version, w.events
	w.changed, w.events = false, false
	w.everything = w.everything || events
	return changed, w.ended, events
}

// judge decides what the end of a watch means for the next round.
func (f *follower) judge(ended error, lasted time.Duration, brought bool) error {
	if errors.Is(ended, io.EOF) || errors.Is(ended, io.ErrUnexpectedEOF) {
		// A watch that ends at once cannot be told from one that sees nothing.
		if lasted < shortWatch && !brought {
			f.version = ""
		} else {
			f.back.reset()
		}
		return nil
	}
	var status apierrors.APIStatus
	if errors.As(ended, &status) {
		f.version = "" // whatever it is about, a list sets it right
		if code(ended) == http.StatusGone {
			return nil
		}
		if _, ok := transient(ended); !ok {
			return fmt.Errorf("watch %s: %w", f.q.Resource, ended)
		}
	}
	return nil // the connection broke: watch on from where it was
}

// watcher is the reading side of a watch.
type watcher struct {
	wake chan struct{} // something changed below

	mu         sync.Mutex
	objs       map[string]*unstructured.Unstructured
	version    string
	changed    bool
	events     bool
	everything bool // whether there ever was an event
	ended      error
}

// event is one line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

func (w *watcher) read(stream io.ReadCloser) {
	defer stream.Close()
	dec := json.NewDecoder(stream)
	w.mu.Lock()
	w.objs = maps.Clone(w.objs)
	w.mu.Unlock()
	for {
		var ev event
		err := dec.Decode(&ev)
		if err == nil {
			err = w.apply(ev)
		}
		w.mu.Lock()
		w.ended = err
		w.mu.Unlock()
		select {
		case w.wake <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (w *watcher) apply(ev event) error {
	if ev.Type == "ERROR" {
		var status metav1.Status
		if err := json.Unmarshal(ev.Object, &status); err != nil {
			return err
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	o, err := object(ev.Object)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = true
	if v := o.GetResourceVersion(); v != "" {
		w.version = v
	}
	switch ev.Type {
	case "ADDED", "MODIFIED":
		w.objs[keyOf(o)] = o
		w.changed = true
	case "DELETED":
		delete(w.objs, keyOf(o))
		w.changed = true
	}
	return nil
}

// openWatch starts a watch and returns its stream. cancel ends ctx; it is used
// when the server does not start to answer, or goes on past the time asked for.
func (c *Cluster) openWatch(caller, ctx context.Context, cancel context.CancelCauseFunc, q step.Query, version string) (io.ReadCloser, error) {
	p, err := c.locateAll(ctx, q)
	if err != nil {
		return nil, err
	}
	last := watchTime + rand.N(time.Minute)
	r := p.request("watch")
	selectors(r.query, q)
	r.query.Set("watch", "true")
	r.query.Set("allowWatchBookmarks", "true")
	r.query.Set("resourceVersion", version)
	r.query.Set("timeoutSeconds", strconv.Itoa(int(last.Seconds())))
	timer := time.AfterFunc(readTimeout, func() { cancel(errNoHeaders) })
	resp, sent, err := c.watchOnce(ctx, r)
	if err != nil {
		timer.Stop()
		return nil, r.wrap(c.unanswered(caller, ctx, err, sent))
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		defer timer.Stop()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // the status code says enough
		err := r.statusError(resp, body)
		if code(err) == http.StatusUnauthorized {
			err = fmt.Errorf("context %q: the server does not accept the credentials, log in again: %w", c.context, err)
		}
		return nil, r.wrap(err)
	}
	timer.Reset(last + 30*time.Second)
	return &watchStream{resp.Body, timer}, nil
}

// watchOnce sends the request, twice if there are new credentials to try.
func (c *Cluster) watchOnce(ctx context.Context, r request) (*http.Response, bool, error) {
	login := c.current()
	resp, sent, err := c.send(ctx, login, r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && c.renew(ctx, login) {
		resp.Body.Close()
		return c.send(ctx, c.current(), r)
	}
	return resp, sent, err
}

// watchStream is a watch's body with the timer that bounds it.
type watchStream struct {
	io.ReadCloser
	timer *time.Timer
}

// Close ends the watch.
func (s *watchStream) Close() error {
	s.timer.Stop()
	return s.ReadCloser.Close()
}
