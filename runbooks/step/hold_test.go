package step_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

// TestWaitHoldBeginsAnew replaces an object by another one that is ready, too:
// the hour begins again, which the person is told.
func TestWaitHoldBeginsAnew(t *testing.T) {
	for _, verb := range []string{
		waitFor + "name: a, condition: Ready, hold: 1h}",
		waitFor + "selector: app=web, condition: Ready, hold: 1h}",
		waitFor + "name: a, until: 'result.spec.size == 1', hold: 1h}",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		c := newCluster(t, conditioned(widget("a"), "Ready", "True", ""))
		h := &reacting{}
		h.first = func() {
			again := conditioned(widget("a"), "Ready", "True", "")
			again.SetUID("another")
			h.then(cancel)
			put(t, c, again)
		}
		_, err := run(ctx, t, c, action(t, verb), h)
		h.wait()
		contains(t, err, "it was so, but not for 1h0m0s")
		if n := strings.Count(strings.Join(h.progress, "\n"), "watching that it stays so"); n != 2 {
			t.Errorf("%s: began to hold %d times, want 2: %q", verb, n, h.progress)
		}
	}
}

// TestWaitHoldSurvivesOthers changes and adds objects that stay as they should.
func TestWaitHoldSurvivesOthers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := newCluster(t, widget("a"))
	h := &reacting{first: func() {
		put(t, c, widget("b"))
		c.Edit(ref(widgets, "a"), func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"app": "web", "new": "yes"}) })
	}}
	res, err := run(ctx, t, c, action(t, waitFor+"until: 'result.size() > 0', hold: 100ms}"), h)
	h.wait()
	if err != nil {
		t.Fatalf("got %+v, %v", res, err)
	}
	if n := strings.Count(strings.Join(h.progress, "\n"), "watching that it stays so"); n != 1 {
		t.Errorf("began to hold %d times, want 1: %q", n, h.progress)
	}
}

// TestWaitSaysThatItWent tells an object that went from one that never came.
func TestWaitSaysThatItWent(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := newCluster(t, conditioned(widget("a"), "Ready", "False", ""))
	h := &reacting{}
	h.first = func() {
		h.then(cancel)
		c.Remove(ref(widgets, "a"))
	}
	_, err := run(ctx, t, c, action(t, waitFor+"name: a, condition: Ready}"), h)
	h.wait()
	contains(t, err, "it was there, and is gone")
}

// blind is a cluster that cannot be followed for as long as anybody waits.
type blind struct{ *steptest.Cluster }

func (b blind) Follow(ctx context.Context, q step.Query, _ func([]*unstructured.Unstructured) (bool, error)) error {
	<-ctx.Done()
	return fmt.Errorf("follow %s: %w; the last attempt failed: connection refused", q.Resource, ctx.Err())
}

func TestWaitSaysWhyItSawNothing(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, fmt.Errorf("the step's time is over"))
	defer cancel()
	c := newCluster(t)
	c.AllowAll()
	_, err := action(t, waitFor+"name: a, condition: Ready}").Run(ctx, blind{c}, &host{})
	contains(t, err, "the step's time is over", "connection refused")
}
