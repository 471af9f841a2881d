package kube_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"rutter/executor/kube"
	"rutter/runbooks/step"
)

func widgetRef(name string) step.Ref {
	return step.Ref{Resource: widgets, Namespace: "demo", Name: name}
}

func deleteWidget(name string) step.Write {
	return step.Write{Ref: widgetRef(name), Delete: &step.DeleteWrite{}}
}

func patchWidget(name string) step.Write {
	return step.Write{Ref: widgetRef(name), Patch: &step.PatchWrite{Type: types.MergePatchType, Body: []byte(`{"spec":{}}`)}}
}

func TestDiscoveryAsksForTheNamedGroupsOnly(t *testing.T) {
	s := newServer(t)
	s.put("a")
	c := s.client(t)
	for range 3 {
		if _, err := c.Get(t.Context(), widgetRef("a")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Resolve(t.Context(), step.Resource{Plural: "things", Group: "broken.example.com"}); !apierrors.IsServiceUnavailable(err) ||
		!strings.Contains(err.Error(), "things.broken.example.com") {
		t.Errorf("a broken group: %v, want unavailable and named", err)
	}
	if _, err := c.Get(t.Context(), widgetRef("a")); err != nil {
		t.Errorf("another group after that: %v", err)
	}
	want := []string{
		"GET /apis/example.com", "GET /apis/example.com/v1",
		"GET /apis/example.com/v1/namespaces/demo/widgets/a", "GET /apis/example.com/v1/namespaces/demo/widgets/a",
		"GET /apis/example.com/v1/namespaces/demo/widgets/a",
		"GET /apis/broken.example.com",
		"GET /apis/example.com/v1/namespaces/demo/widgets/a",
	}
	if diff := cmp.Diff(want, s.seen()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestDiscoveryNoticesWhatChanged(t *testing.T) {
	s := newServer(t)
	s.put("a")
	c := s.client(t)
	if _, err := c.Resolve(t.Context(), step.Resource{Plural: "widgets", Version: "v2", Group: "example.com"}); !errors.Is(err, step.ErrNotServed) {
		t.Errorf("v2 before: %v, want not served", err)
	}
	if _, err := c.Get(t.Context(), widgetRef("a")); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.served = "v2"
	s.mu.Unlock()
	for _, act := range []func() error{
		func() error { _, err := c.Get(t.Context(), widgetRef("a")); return err },
		func() error { _, err := c.List(t.Context(), step.Query{Resource: widgets}); return err },
	} {
		if err := act(); err != nil {
			t.Errorf("after the version changed: %v", err)
		}
	}
	got, err := c.Resolve(t.Context(), step.Resource{Plural: "widgets", Version: "v2", Group: "example.com"})
	if want := (step.Served{Version: "v2", Kind: "Widget", Namespaced: true}); err != nil || got != want {
		t.Errorf("v2 after: %v, %v; want %v", got, err, want)
	}
}

func TestGetTellsObjectsFromResources(t *testing.T) {
	s := newServer(t)
	s.put("a")
	c := s.client(t)
	if _, err := c.Get(t.Context(), widgetRef("none")); !apierrors.IsNotFound(err) || errors.Is(err, step.ErrNotServed) {
		t.Errorf("no such object: %v", err)
	}
	ref := widgetRef("a")
	ref.UID = "another"
	if _, err := c.Get(t.Context(), ref); !apierrors.IsNotFound(err) {
		t.Errorf("another UID: %v, want not found", err)
	}
	for _, ref := range []step.Ref{
		{Resource: widgets, Name: "a"},
		{Resource: step.Resource{Plural: "namespaces"}, Namespace: "x", Name: "a"},
		{Resource: widgets, Namespace: "demo", Name: "a/b"},
		{Resource: widgets, Namespace: "..", Name: "a"},
	} {
		if _, err := c.Get(t.Context(), ref); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("%v: %v, want a refusal", ref, err)
		}
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for i := range 1203 {
		s.put(strings.Repeat("x", 1+i%3) + string(rune('a'+i%26)) + time.Duration(i).String())
	}
	var expire atomic.Int32
	expire.Store(2)
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("continue") == "1000" && expire.Add(-1) >= 0 {
			fail(w, 410, "Expired", "")
			return true
		}
		return false
	})
	objs, err := s.client(t).List(t.Context(), step.Query{Resource: widgets, Selector: "a=b", Name: "n", Fields: "metadata.namespace=demo"})
	if err != nil || len(objs) != 1203 {
		t.Fatalf("%d objects, %v; want 1203", len(objs), err)
	}
	if n := len(s.seen("limit=500", "labelSelector=a%3Db", "fieldSelector=metadata.name%3Dn%2Cmetadata.namespace%3Ddemo")); n != 9 {
		t.Errorf("%d pages, want 9 in three attempts: %v", n, s.seen("limit"))
	}
	expire.Store(1000)
	if objs, err = s.client(t).List(t.Context(), step.Query{Resource: widgets}); err != nil || len(objs) != 1203 {
		t.Errorf("pages that always expire: %d objects, %v; want 1203 in one piece", len(objs), err)
	}
}

func TestReadsAreRepeated(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(w http.ResponseWriter){
		"dropped":  drop,
		"too busy": func(w http.ResponseWriter) { w.Header().Set("Retry-After", "1"); fail(w, 429, "TooManyRequests", "") },
		"starting": func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			fail(w, 503, "ServiceUnavailable", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.put("a")
			var times atomic.Int32
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/a") || times.Add(1) > 1 {
					return false
				}
				fault(w)
				return true
			})
			if _, err := s.client(t).Get(t.Context(), widgetRef("a")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWritesAreNotRepeatedWhenTheyMayHaveHappened(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		fault   func(w http.ResponseWriter)
		sent    int
		unknown bool
		ok      bool
	}{
		{"dropped", drop, 1, true, false},
		{"gateway timeout", func(w http.ResponseWriter) { fail(w, 504, "Timeout", "") }, 1, true, false},
		{"bad gateway", func(w http.ResponseWriter) { http.Error(w, "<html>", http.StatusBadGateway) }, 1, true, false},
		{"too busy", func(w http.ResponseWriter) { w.Header().Set("Retry-After", "1"); fail(w, 429, "TooManyRequests", "") }, 2, false, true},
		{"webhook refuses", func(w http.ResponseWriter) { fail(w, 500, "InternalError", "") }, 1, false, false},
		{"conflict", func(w http.ResponseWriter) { fail(w, 409, "Conflict", "a") }, 1, false, false},
	} {
		for _, w := range []step.Write{deleteWidget("a"), patchWidget("a")} {
			t.Run(tt.name, func(t *testing.T) {
				s := newServer(t)
				s.put("a")
				var times atomic.Int32
				s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method == http.MethodGet {
						return false
					}
					if times.Add(1) > 1 {
						return false
					}
					_, _ = io.Copy(io.Discard, r.Body)
					tt.fault(w)
					return true
				})
				_, err := s.client(t).Do(t.Context(), w)
				var unknown interface{ OutcomeUnknown() bool }
				if got := errors.As(err, &unknown); got != tt.unknown || (err == nil) != tt.ok {
					t.Errorf("got %v, want unknown %t, success %t", err, tt.unknown, tt.ok)
				}
				if got := len(s.seen("/widgets/a")); got != tt.sent {
					t.Errorf("sent %d times, want %d", got, tt.sent)
				}
				if err != nil && !strings.Contains(err.Error(), "widgets.example.com/a in demo: ") {
					t.Errorf("%v does not name the object", err)
				}
			})
		}
	}
}

func TestWriteWaitsForAServerThatRestarts(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("a")
	c := s.client(t)
	if _, err := c.Get(t.Context(), widgetRef("a")); err != nil {
		t.Fatal(err)
	}
	s.stop()
	c.Close() // else the write may go out on a connection that nobody reads
	time.AfterFunc(time.Second, s.start)
	if _, err := c.Do(t.Context(), patchWidget("a")); err != nil {
		t.Error(err)
	}
	if n := len(s.seen("PATCH")); n != 1 {
		t.Errorf("%d patches arrived, want 1", n)
	}
}

func TestWriteThatIsInterruptedHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.put("a")
	ctx, cancel := context.WithCancel(t.Context())
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		cancel()
		<-r.Context().Done()
		return true
	})
	_, err := s.client(t).Do(ctx, deleteWidget("a"))
	var unknown *kube.UnknownOutcome
	if !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an unknown outcome and the reason", err)
	}
}

func TestWriteRequests(t *testing.T) {
	s := newServer(t)
	s.put("a")
	type sent struct{ URI, Type, Body string }
	var got []sent
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			body, _ := io.ReadAll(r.Body)
			got = append(got, sent{r.Method + " " + strings.TrimPrefix(r.URL.RequestURI(), "/apis/example.com/v1/namespaces/demo/widgets"), r.Header.Get("Content-Type"), string(body)})
		}
		return false
	})
	c := s.client(t)
	ref := widgetRef("a")
	ref.UID = "uid-a"
	grace := int64(0)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a", "managedFields": []any{}}}}
	for _, w := range []step.Write{
		{Ref: widgetRef("a"), Apply: &step.ApplyWrite{Object: o, Force: true}},
		{Ref: ref, Patch: &step.PatchWrite{Type: types.MergePatchType, Body: []byte(`{"spec":{"size":3}}`)}},
		{Ref: ref, Patch: &step.PatchWrite{Type: types.JSONPatchType, Body: []byte(`[]`), Subresource: "status"}},
		{Ref: ref, Delete: &step.DeleteWrite{Propagation: "Orphan", GraceSeconds: &grace}},
	} {
		if _, err := c.Do(t.Context(), w); err != nil && w.Patch.Subresource == "" {
			t.Error(err)
		}
	}
	s.put("a")
	if _, err := c.DryRun(t.Context(), deleteWidget("a")); err != nil {
		t.Error(err)
	}
	want := []sent{
		{"PATCH /a?fieldManager=rutter&fieldValidation=Strict&force=true", "application/apply-patch+yaml", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`},
		{"PATCH /a?fieldManager=rutter", "application/merge-patch+json", `{"metadata":{"uid":"uid-a"},"spec":{"size":3}}`},
		{"PATCH /a/status?fieldManager=rutter", "application/json-patch+json", `[{"op":"test","path":"/metadata/uid","value":"uid-a"}]`},
		{"DELETE /a", "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"uid-a"},"propagationPolicy":"Orphan"}`},
		{"DELETE /a?dryRun=All", "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background","dryRun":["All"]}`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAccessAndIdentity(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	perm := func(verb, ns string) step.Permission {
		return step.Permission{Verb: verb, Resource: widgets, Namespace: ns}
	}
	missing, err := c.Access(t.Context(), []step.Permission{perm("get", "demo"), perm("delete", "demo"), perm("delete", "demo"), perm("delete", step.Mark(step.OutputMark, "x.ns"))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]step.Permission{perm("delete", "demo"), perm("delete", "")}, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	denials, err := c.Denials(t.Context(), []step.Permission{perm("delete", "demo")})
	if err != nil || len(denials) != 1 || denials[0].Reason != "no rule allows it" {
		t.Errorf("denials %v, %v", denials, err)
	}
	id, err := c.Identity(t.Context())
	want := step.Identity{Context: "test", Server: "http://" + s.addr, User: "ann", Version: "v1.99.0", UID: "cluster-1"}
	if diff := cmp.Diff(want, id); err != nil || diff != "" {
		t.Errorf("identity: %v (-want +got):\n%s", err, diff)
	}
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "kube-system") {
			fail(w, 403, "Forbidden", "kube-system")
			return true
		}
		return false
	})
	if id, err = c.Identity(t.Context()); !errors.Is(err, kube.ErrIdentityForbidden) || id.User != "ann" {
		t.Errorf("identity without the right: %+v, %v", id, err)
	}
}

func TestWarningsAreKept(t *testing.T) {
	s := newServer(t)
	s.put("a")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Add("Warning", `299 - "widgets are old-fashioned"`)
		return false
	})
	c := s.client(t)
	if _, err := c.Get(t.Context(), widgetRef("a")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"widgets are old-fashioned"}, c.Warnings()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestNothingIsPrinted(t *testing.T) {
	newServer(t).client(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	klog.Error("an error of client-go")
	klog.Warning("a warning of client-go")
	klog.Flush()
	os.Stderr = stderr
	w.Close()
	if out, _ := io.ReadAll(r); len(out) > 0 {
		t.Errorf("standard error got %q", out)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.stop()
	c := s.client(t)
	start := time.Now()
	_, err := c.Get(t.Context(), widgetRef("a"))
	if !errors.Is(err, kube.ErrUnreachable) || !strings.Contains(err.Error(), `context "test"`) || !strings.Contains(err.Error(), s.addr) {
		t.Errorf("got %v, want unreachable, with context and address", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}
