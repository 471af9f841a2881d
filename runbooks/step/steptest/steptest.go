// Package steptest is a cluster in memory for the tests of verbs and runs.
//
// [Cluster] implements [step.Cluster] and keeps state the way an API server
// does where that matters to a runbook: UIDs, resource versions, generations,
// finalizers, owner references, field managers, namespaces and custom resource
// definitions that wait for their content. Errors are those of apimachinery.
// It refuses every call that no permission given to [Cluster.Allow] covers, so
// a verb that asks for more than it declares fails its test.
//
// The methods of step.Cluster are what the code under test sees. Put, Edit,
// Remove and Object are the hands of the test and of the controllers it plays:
// they need no permission and are not listed among the calls. Nothing runs in
// the background: what a controller of the real control plane would do soon
// after a write is done before the write returns.
//
// It is no API server: there is no schema, no defaulting, no admission and no
// conversion, and graceful deletion of pods takes no time.
package steptest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"rutter/runbooks/step"
)

// Manager is the field manager of every write that goes through step.Cluster.
const Manager = "rutter"

// Cluster is an API server in memory. It is safe for concurrent use. Make one
// with [New].
type Cluster struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced after each change
	defs     []*def
	store    map[step.Resource]map[key]*stored
	version  int64
	uids     int64
	allowed  []step.Permission
	allowAll bool
	calls    []Call
	refused  []step.Permission
	fail     []func(Call) error
	onWrite  []func(Call, *unstructured.Unstructured)
}

// ResourceDef says how a resource is served.
type ResourceDef struct {
	// Resource has the preferred version; "" means v1.
	Resource   step.Resource
	Kind       string
	Namespaced bool
	// Versions are served besides the preferred one, without conversion.
	Versions []string
	// NoStatus is set for resources without a status subresource: writes to
	// the object itself may then change its status.
	NoStatus bool
}

// Call is one request that the code under test made.
type Call struct {
	Verb        string // resolve, get, list, watch, apply, patch or delete
	Ref         step.Ref
	Query       step.Query // of list and watch
	Write       step.Write // of apply, patch and delete
	DryRun      bool
	Subresource string
}

// String returns the call as "delete demo/pods/api".
func (c Call) String() string {
	s := c.Verb
	if c.DryRun {
		s = "dry-run " + s
	}
	if c.Verb != "list" && c.Verb != "watch" {
		s += " " + c.Ref.String()
		if c.Subresource != "" {
			s += "/" + c.Subresource
		}
		return s
	}
	s += " " + c.Query.Resource.String()
	for _, part := range []struct{ word, value string }{
		{"in", c.Query.Namespace}, {"name", c.Query.Name}, {"labels", c.Query.Selector}, {"fields", c.Query.Fields},
	} {
		if part.value != "" {
			s += " " + part.word + " " + part.value
		}
	}
	return s
}

// def is a resource as served; resource has no version.
type def struct {
	resource   step.Resource
	versions   []string // the preferred one first
	kind       string
	namespaced bool
	noStatus   bool
}

type key struct{ namespace, name string }

// stored is an object and who owns its fields.
type stored struct {
	obj    *unstructured.Unstructured
	owners owners
}

// New returns a cluster that serves the common built-in resources and those
// given, with the namespaces default and kube-system and with objs in it, as
// by [Cluster.Put]. It allows nothing yet.
func New(t testing.TB, resources []ResourceDef, objs ...*unstructured.Unstructured) *Cluster {
	t.Helper()
	c := &Cluster{changed: make(chan struct{}), store: map[step.Resource]map[key]*stored{}}
	for _, d := range builtin() {
		c.serve(d)
	}
	for _, d := range resources {
		c.serve(d)
	}
	for _, name := range []string{"default", "kube-system"} {
		if err := c.Put(Object("v1", "Namespace", "", name, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Put(objs...); err != nil {
		t.Fatal(err)
	}
	return c
}

// Object returns an object, with further top-level fields such as spec. Values
// may be anything that JSON can hold.
func Object(apiVersion, kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	content := maps.Clone(fields)
	if content == nil {
		content = map[string]any{}
	}
	content["apiVersion"], content["kind"] = apiVersion, kind
	meta, ok := content["metadata"].(map[string]any)
	if meta = maps.Clone(meta); !ok {
		meta = map[string]any{}
	}
	meta["name"] = name
	if namespace != "" {
		meta["namespace"] = namespace
	}
	content["metadata"] = meta
	return &unstructured.Unstructured{Object: content}
}

// Serve adds a resource, as a new custom resource definition would.
func (c *Cluster) Serve(res step.Resource, kind string, namespaced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serve(ResourceDef{Resource: res, Kind: kind, Namespaced: namespaced})
	c.broadcast()
}

// Unserve ends a resource, with its objects.
func (c *Cluster) Unserve(res step.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unserve(res)
	c.broadcast()
}

func (c *Cluster) serve(rd ResourceDef) {
	res := rd.Resource
	if res.Version == "" {
		res.Version = "v1"
	}
	c.defs = slices.DeleteFunc(c.defs, func(d *def) bool { return d.resource == res.Unversioned() })
	c.defs = append(c.defs, &def{
		resource:   res.Unversioned(),
		versions:   append([]string{res.Version}, rd.Versions...),
		kind:       rd.Kind,
		namespaced: rd.Namespaced,
		noStatus:   rd.NoStatus,
	})
	if c.store[res.Unversioned()] == nil {
		c.store[res.Unversioned()] = map[key]*stored{}
	}
}

func (c *Cluster) unserve(res step.Resource) {
	c.defs = slices.DeleteFunc(c.defs, func(d *def) bool { return d.resource == res.Unversioned() })
	delete(c.store, res.Unversioned())
}

// Allow adds to what the code under test may do.
func (c *Cluster) Allow(perms ...step.Permission) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allowed = append(c.allowed, perms...)
}

// AllowAll lets everything through, for tests that are not about permissions.
func (c *Cluster) AllowAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allowAll = true
}

// Calls returns what the code under test asked for, in order, with the calls
// that were refused or failed.
func (c *Cluster) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Refused returns the permissions that were needed and not allowed. A test of
// a verb that tolerates being refused asks that it is empty.
func (c *Cluster) Refused() []step.Permission {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused)
}

// Fail adds a hook that is asked before each call; its error is the call's.
// It may use the cluster, also to change what the call is about to see.
func (c *Cluster) Fail(hook func(Call) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = append(c.fail, hook)
}

// OnWrite adds a hook that gets each write that was done, and what the server
// answered, before the writer does. With it a test plays a controller: it may
// use Put, Edit and Remove.
func (c *Cluster) OnWrite(hook func(Call, *unstructured.Unstructured)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onWrite = append(c.onWrite, hook)
}

// enter records a call, asks the hooks, and checks permissions and scope. It
// is called without the lock.
func (c *Cluster) enter(call Call, perms ...step.Permission) error {
	c.mu.Lock()
	c.calls = append(c.calls, call)
	hooks := slices.Clone(c.fail)
	c.mu.Unlock()
	for _, hook := range hooks {
		if err := hook(call); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.permit(perms...)
}

// permit returns a Forbidden error for the first permission that nobody has.
func (c *Cluster) permit(perms ...step.Permission) error {
	for _, p := range perms {
		if !c.allowAll && !slices.ContainsFunc(c.allowed, func(a step.Permission) bool { return a.Allows(p) }) {
			c.refused = append(c.refused, p)
			return apierrors.NewForbidden(groupResource(p.Resource), p.Name, fmt.Errorf("no declared permission covers %q", p))
		}
	}
	return nil
}

func (c *Cluster) defOf(res step.Resource) *def {
	for _, d := range c.defs {
		if d.resource == res.Unversioned() && (res.Version == "" || slices.Contains(d.versions, res.Version)) {
			return d
		}
	}
	return nil
}

func (c *Cluster) defOfKind(group, kind string) *def {
	for _, d := range c.defs {
		if d.resource.Group == group && d.kind == kind {
			return d
		}
	}
	return nil
}

// find returns what the ref names. A UID that is set must be the object's.
func (c *Cluster) find(ref step.Ref) (*def, *stored) {
	d := c.defOf(ref.Resource)
	if d == nil {
		return nil, nil
	}
	s := c.store[d.resource][key{ref.Namespace, ref.Name}]
	if s == nil || ref.UID != "" && ref.UID != s.obj.GetUID() {
		return d, nil
	}
	return d, s
}

// keys returns the keys of a resource's objects in the server's order.
func (c *Cluster) keys(d *def) []key {
	return slices.SortedFunc(maps.Keys(c.store[d.resource]), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}

// complete makes up what a server sets on creation.
func (c *Cluster) complete(o *unstructured.Unstructured) {
	if o.GetUID() == "" {
		c.uids++
		o.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", c.uids)))
	}
	if ts := o.GetCreationTimestamp(); ts.IsZero() {
		o.SetCreationTimestamp(epoch)
	}
	if o.GetGeneration() == 0 {
		o.SetGeneration(1)
	}
	if o.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		setDefault(o, []any{"kubernetes"}, "spec", "finalizers")
		setDefault(o, "Active", "status", "phase")
	}
}

// save stores an object under a new resource version.
func (c *Cluster) save(d *def, k key, s *stored) {
	c.version++
	s.obj.SetResourceVersion(fmt.Sprint(c.version))
	c.store[d.resource][k] = s
	if d.resource == crds && s.obj.GetDeletionTimestamp() == nil {
		c.establish(s.obj)
	}
}

func (c *Cluster) drop(d *def, k key) {
	s := c.store[d.resource][k]
	c.version++
	delete(c.store[d.resource], k)
	if d.resource == crds {
		c.unserve(crdDef(s.obj).Resource)
	}
}

// broadcast wakes everyone who follows.
func (c *Cluster) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func groupResource(res step.Resource) schema.GroupResource {
	return schema.GroupResource{Group: res.Group, Resource: res.Plural}
}
