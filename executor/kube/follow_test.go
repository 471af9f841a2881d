package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/executor/kube"
	"rutter/runbooks/step"
)

// follow follows the widgets until their names are want. Between the calls of
// Follow's function the steps are done one by one, each once the names are
// what it says.
func follow(t *testing.T, c *kube.Cluster, want string, steps map[string]func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var last string
	err := c.Follow(ctx, step.Query{Resource: widgets}, func(objs []*unstructured.Unstructured) (bool, error) {
		last = names(objs)
		if do, ok := steps[last]; ok {
			delete(steps, last)
			do()
		}
		return last == want, nil
	})
	if err != nil {
		t.Fatalf("follow ended at %q, want %q: %v", last, want, err)
	}
}

func names(objs []*unstructured.Unstructured) string {
	var out []string
	for _, o := range objs {
		out = append(out, o.GetName())
	}
	return strings.Join(out, " ")
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func TestFollowSeesChanges(t *testing.T) {
	s := newServer(t)
	s.put("b")
	follow(t, s.client(t), "a", map[string]func(){
		"b":   func() { s.put("a") },
		"a b": func() { s.remove("b") },
	})
	if n := len(s.seen("watch=true")); n != 1 {
		t.Errorf("%d watches, want 1", n)
	}
}

func TestFollowSurvivesARestart(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("a")
	follow(t, s.client(t), "a b", map[string]func(){
		"a": func() {
			s.stop()
			time.AfterFunc(1500*time.Millisecond, func() { s.put("b"); s.start() })
		},
	})
}

func TestFollowSurvivesADroppedWatch(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("a")
	follow(t, s.client(t), "a b c", map[string]func(){
		"a":   func() { s.mu.Lock(); s.http.CloseClientConnections(); s.mu.Unlock(); s.put("b") },
		"a b": func() { s.mu.Lock(); s.http.CloseClientConnections(); s.mu.Unlock(); s.put("c") },
	})
	if n := len(s.seen("limit=")); n != 1 {
		t.Errorf("%d lists, want 1: a dropped watch goes on where it was", n)
	}
}

func TestFollowListsAgainWhenTheVersionIsGone(t *testing.T) {
	t.Parallel()
	for _, asEvent := range []bool{false, true} {
		t.Run(fmt.Sprint("as an event ", asEvent), func(t *testing.T) {
			s := newServer(t)
			s.put("a")
			var once atomic.Bool
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if !isWatch(r) || once.Swap(true) {
					return false
				}
				s.put("b")
				if asEvent {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired"}}`)
					return true
				}
				s.compact()
				return false
			})
			follow(t, s.client(t), "a b", nil)
		})
	}
}

func TestFollowHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("a")
	var refused atomic.Int32
	var first atomic.Int64
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !isWatch(r) || refused.Add(1) > 1 {
			return false
		}
		first.Store(time.Now().UnixNano())
		w.Header().Set("Retry-After", "2")
		fail(w, 429, "TooManyRequests", "")
		s.put("b")
		return true
	})
	follow(t, s.client(t), "a b", nil)
	if waited := time.Since(time.Unix(0, first.Load())); waited < 1900*time.Millisecond {
		t.Errorf("came back after %s, want 2s", waited)
	}
}

// A watch that answers 200 and ends at once must not be asked again and again,
// and what it would not tell must be seen all the same.
func TestFollowOfAnEmptyWatch(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("a")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if isWatch(r) {
			w.Header().Set("Content-Type", "application/json")
		}
		return isWatch(r)
	})
	time.AfterFunc(2*time.Second, func() { s.put("b") })
	follow(t, s.client(t), "a b", nil)
	if n := len(s.seen("watch=true")); n < 3 || n > 12 {
		t.Errorf("%d watches in some two seconds, want a handful", n)
	}
}

func TestFollowEndsWhereNothingWillChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		code  int
		res   step.Resource
		check func(error) bool
		says  string
	}{
		{"forbidden", 403, widgets, apierrors.IsForbidden, "watch widgets.example.com"},
		{"unauthorized", 401, widgets, apierrors.IsUnauthorized, "log in again"},
		{"not served", 0, step.Resource{Plural: "gadgets", Group: "example.com"}, func(err error) bool { return errors.Is(err, step.ErrNotServed) }, "gadgets.example.com"},
		{"no such group", 0, step.Resource{Plural: "gadgets", Group: "none.example.com"}, func(err error) bool { return errors.Is(err, step.ErrNotServed) }, "gadgets.none.example.com"},
		{"broken selector", 400, widgets, apierrors.IsBadRequest, "watch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t)
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if tt.code == 0 || !isWatch(r) {
					return false
				}
				reason := map[int]string{403: "Forbidden", 401: "Unauthorized", 400: "BadRequest"}[tt.code]
				fail(w, tt.code, reason, "")
				return true
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err := s.client(t).Follow(ctx, step.Query{Resource: tt.res}, func([]*unstructured.Unstructured) (bool, error) { return false, nil })
			if !tt.check(err) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want an error of that kind that says %q", err, tt.says)
			}
		})
	}
}

// A definition that is deleted while it is followed is not served any more.
func TestFollowOfAResourceThatGoes(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("a")
	var gone atomic.Bool
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if gone.Load() && strings.Contains(r.URL.Path, "example.com") {
			http.Error(w, "404 page not found", 404)
			return true
		}
		return false
	})
	err := s.client(t).Follow(t.Context(), step.Query{Resource: widgets}, func([]*unstructured.Unstructured) (bool, error) {
		gone.Store(true)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.http.CloseClientConnections()
		return false, nil
	})
	if !errors.Is(err, step.ErrNotServed) {
		t.Errorf("got %v, want %v", err, step.ErrNotServed)
	}
}

func TestFollowLeavesNothingBehind(t *testing.T) {
	s := newServer(t)
	s.put("a")
	c := s.client(t)
	boom := errors.New("boom")
	follow(t, c, "a", nil)
	c.Close()
	before := settled(0)
	for range 5 {
		err := c.Follow(t.Context(), step.Query{Resource: widgets}, func([]*unstructured.Unstructured) (bool, error) { return false, boom })
		if err != boom {
			t.Fatalf("got %v, want the function's own error", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err = c.Follow(ctx, step.Query{Resource: widgets}, func([]*unstructured.Unstructured) (bool, error) { return false, nil })
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the end of the time", err)
		}
	}
	c.Close()
	if after := settled(before); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

// settled returns the number of goroutines once it is at most want, or does
// not fall any more.
func settled(want int) int {
	n := runtime.NumGoroutine()
	for range 100 {
		if n <= want {
			break
		}
		timer := time.NewTimer(10 * time.Millisecond)
		<-timer.C
		n = min(n, runtime.NumGoroutine())
	}
	return n
}

func TestFollowSaysWhatWentWrongLast(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(t)
	if _, err := c.Resolve(t.Context(), widgets); err != nil {
		t.Fatal(err)
	}
	s.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	err := c.Follow(ctx, step.Query{Resource: widgets}, func([]*unstructured.Unstructured) (bool, error) { return false, nil })
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kube.ErrUnreachable) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v, want the end of the time and why nothing was seen", err)
	}
}
