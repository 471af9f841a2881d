package kube_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"rutter/executor/kube"
	"rutter/runbooks/step"
)

var widgets = step.Resource{Plural: "widgets", Group: "example.com"}

// server is an API server that keeps state, for faults that a real one cannot
// be made to have. It serves namespaces, and widgets of example.com.
type server struct {
	t    *testing.T
	addr string
	tls  bool

	mu       sync.Mutex
	http     *httptest.Server
	version  int
	oldest   int // watches from before are gone
	widgets  map[string]map[string]any
	log      []change
	changed  chan struct{}
	requests []string
	fault    func(w http.ResponseWriter, r *http.Request) bool
	served   string // the version of widgets
}

type change struct {
	version int
	kind    string
	object  map[string]any
}

func newServer(t *testing.T) *server {
	s := &server{t: t, widgets: map[string]map[string]any{}, changed: make(chan struct{}), served: "v1"}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// start listens, at the same address as before.
func (s *server) start() {
	s.t.Helper()
	h := httptest.NewUnstartedServer(s)
	if s.addr != "" {
		h.Listener.Close()
		l, err := net.Listen("tcp", s.addr)
		if err != nil {
			s.t.Fatal(err)
		}
		h.Listener = l
	}
	if s.tls {
		h.StartTLS()
	} else {
		h.Start()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.http, s.addr = h, h.Listener.Addr().String()
}

// stop breaks all connections.
func (s *server) stop() {
	s.mu.Lock()
	h := s.http
	s.http = nil
	s.mu.Unlock()
	if h != nil {
		h.CloseClientConnections()
		h.Listener.Close()
		h.Config.Close()
	}
}

func (s *server) setFault(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// seen returns the requests so far that hold all of the words.
func (s *server) seen(words ...string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(r, w) })
	})
}

// put makes or changes a widget.
func (s *server) put(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "MODIFIED"
	if s.widgets[name] == nil {
		kind = "ADDED"
	}
	s.version++
	s.widgets[name] = s.widget(name)
	s.record(kind, s.widgets[name])
}

func (s *server) widget(name string) map[string]any {
	return map[string]any{
		"apiVersion": "example.com/" + s.served, "kind": "Widget",
		"metadata": map[string]any{"name": name, "namespace": "demo", "uid": "uid-" + name, "resourceVersion": strconv.Itoa(s.version)},
	}
}

func (s *server) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	delete(s.widgets, name)
	s.record("DELETED", s.widget(name))
}

func (s *server) record(kind string, o map[string]any) {
	s.log = append(s.log, change{s.version, kind, o})
	close(s.changed)
	s.changed = make(chan struct{})
}

// compact forgets the past.
func (s *server) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.oldest = s.version
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	fault := s.fault
	served := s.served
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	base := "/apis/example.com/" + served
	path := r.URL.Path
	switch {
	case path == "/version":
		answer(w, 200, map[string]any{"gitVersion": "v1.99.0"})
	case path == "/api/v1":
		answer(w, 200, resources("v1", map[string]any{"name": "namespaces", "kind": "Namespace", "namespaced": false}))
	case path == "/apis/example.com":
		answer(w, 200, map[string]any{"kind": "APIGroup", "name": "example.com",
			"versions":         []any{map[string]any{"groupVersion": "example.com/" + served, "version": served}},
			"preferredVersion": map[string]any{"version": served}})
	case path == base:
		answer(w, 200, resources("example.com/"+served, map[string]any{"name": "widgets", "kind": "Widget", "namespaced": true}))
	case path == "/apis/broken.example.com/v1" || path == "/apis/broken.example.com":
		fail(w, 503, "ServiceUnavailable", "")
	case path == "/api/v1/namespaces/kube-system":
		answer(w, 200, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system", "uid": "cluster-1"}})
	case strings.HasSuffix(path, "reviews"):
		s.review(w, r)
	case path == base+"/widgets" || path == base+"/namespaces/demo/widgets":
		if r.URL.Query().Get("watch") != "" {
			s.watch(w, r)
			return
		}
		s.list(w, r)
	case strings.HasPrefix(path, base+"/namespaces/demo/widgets/"):
		s.one(w, r, strings.TrimPrefix(path, base+"/namespaces/demo/widgets/"))
	default:
		http.Error(w, "404 page not found", 404)
	}
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.widgets))
	meta := map[string]any{"resourceVersion": strconv.Itoa(s.version)}
	if from, err := strconv.Atoi(r.URL.Query().Get("continue")); err == nil {
		names = names[from:]
	}
	if limit, _ := strconv.Atoi(r.URL.Query().Get("limit")); limit > 0 && limit < len(names) {
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		meta["continue"] = strconv.Itoa(from + limit)
		names = names[:limit]
	}
	items := []any{}
	for _, n := range names {
		items = append(items, s.widgets[n])
	}
	answer(w, 200, map[string]any{"apiVersion": "example.com/v1", "kind": "WidgetList", "metadata": meta, "items": items})
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	s.mu.Lock()
	gone := from < s.oldest
	s.mu.Unlock()
	if gone {
		fail(w, 410, "Expired", "")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	w.(http.Flusher).Flush()
	for {
		s.mu.Lock()
		changed := s.changed
		var todo []change
		for _, c := range s.log {
			if c.version > from {
				todo = append(todo, c)
				from = c.version
			}
		}
		s.mu.Unlock()
		for _, c := range todo {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": c.kind, "object": c.object})
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *server) one(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.widgets[name]
	switch {
	case r.Method == http.MethodPatch:
		s.version++
		s.widgets[name] = s.widget(name)
		answer(w, 200, s.widgets[name])
	case o == nil:
		fail(w, 404, "NotFound", name)
	case r.Method == http.MethodDelete:
		delete(s.widgets, name)
		answer(w, 200, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	default:
		answer(w, 200, o)
	}
}

// review allows everything but deleting widgets.
func (s *server) review(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Spec struct {
			ResourceAttributes map[string]string `json:"resourceAttributes"`
		} `json:"spec"`
	}
	_ = json.NewDecoder(r.Body).Decode(&ask)
	status := map[string]any{"userInfo": map[string]any{"username": "ann", "groups": []any{"ops"}}}
	status["allowed"] = ask.Spec.ResourceAttributes["verb"] != "delete"
	if status["allowed"] == false {
		status["reason"] = "no rule allows it"
	}
	answer(w, 201, map[string]any{"kind": "Review", "status": status})
}

func resources(gv string, rs ...any) map[string]any {
	return map[string]any{"kind": "APIResourceList", "groupVersion": gv, "resources": rs}
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func fail(w http.ResponseWriter, code int, reason, name string) {
	details := map[string]any{}
	if name != "" {
		details = map[string]any{"name": name, "kind": "widgets"}
	}
	answer(w, code, map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
		"message": fmt.Sprintf("%s: %s", reason, name), "details": details,
	})
}

// drop breaks the connection without an answer.
func drop(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
}

// writeKubeconfig writes a kubeconfig with one context.
func writeKubeconfig(t *testing.T, server, context, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	data := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: %q\ncontexts:\n- name: %q\n  context: {cluster: c, user: u}\n"+
		"clusters:\n- name: c\n  cluster: {server: %q, insecure-skip-tls-verify: %t}\nusers:\n- name: u\n  user: %s\n",
		context, context, server, strings.HasPrefix(server, "https"), user)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// client returns a cluster that is the server.
func (s *server) client(t *testing.T) *kube.Cluster {
	t.Helper()
	c, err := kube.New(kube.Config{Kubeconfig: writeKubeconfig(t, "http://"+s.addr, "test", "{}")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
