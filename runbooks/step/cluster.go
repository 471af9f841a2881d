package step

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// ErrNotServed means that the API server does not serve a resource. Errors
// that wrap it name the resource.
var ErrNotServed = errors.New("the API server does not serve this resource")

// Reader reads one cluster. Not-found and other API errors are those of
// k8s.io/apimachinery/pkg/api/errors. It is safe for concurrent use.
type Reader interface {
	// Resolve finds how the cluster serves a resource, or ErrNotServed.
	Resolve(ctx context.Context, res Resource) (Served, error)
	// Get reads one object.
	Get(ctx context.Context, ref Ref) (*unstructured.Unstructured, error)
	// List reads all objects that match, in the server's order, page by page.
	List(ctx context.Context, q Query) ([]*unstructured.Unstructured, error)
	// Follow calls fn with the objects that match now and again after each
	// change, until fn says it is done or fails, or ctx ends. It survives
	// watches that drop, expire or are refused for a while; calls never
	// overlap, and a slow fn may miss states in between.
	Follow(ctx context.Context, q Query, fn func(objs []*unstructured.Unstructured) (done bool, err error)) error
	// DryRun asks the server what a write would result in, without doing it.
	// A delete returns the object as it is.
	DryRun(ctx context.Context, w Write) (*unstructured.Unstructured, error)
}

// Cluster is a Reader that can also write.
type Cluster interface {
	Reader
	// Do performs one write and returns the object as the server answered; for
	// a delete that may be nil. Writing what is there already is no error.
	Do(ctx context.Context, w Write) (*unstructured.Unstructured, error)
}

// Identity says which cluster it is and who asks. A cluster is its kube-system
// UID; the rest is for people to recognise it by.
type Identity struct {
	Context string
	Server  string
	User    string // "" if the server does not say
	Version string
	UID     types.UID
}

// Served is how a cluster serves a resource.
type Served struct {
	Version    string // such as v1beta1
	Kind       string
	Namespaced bool
}

// Ref names one object. Namespace is "" for cluster-scoped ones. UID may be
// empty; where it is set it is part of the identity.
type Ref struct {
	Resource  Resource
	Namespace string
	Name      string
	UID       types.UID
}

// String returns resource/name, with the namespace in front where there is one.
func (r Ref) String() string {
	s := r.Resource.String() + "/" + r.Name
	if r.Namespace != "" {
		s = r.Namespace + "/" + s
	}
	return s
}

// RefOf returns the reference to an object that was read as res.
func RefOf(res Resource, obj *unstructured.Unstructured) Ref {
	return Ref{Resource: res, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()}
}

// Query selects objects of one resource. An empty Namespace means all of them.
type Query struct {
	Resource  Resource
	Namespace string
	Name      string // "" for any
	Selector  string // of labels, as kubectl -l takes it
	Fields    string // of fields, as kubectl --field-selector takes it
}

// Write is one change of one object. Exactly one of Apply, Patch and Delete
// is set. Before is the object as the step has just read it, nil if it has not;
// it goes into the journal and saves reading it again.
type Write struct {
	Ref    Ref
	Before *unstructured.Unstructured
	Apply  *ApplyWrite
	Patch  *PatchWrite
	Delete *DeleteWrite
}

// ApplyWrite is a server-side apply. Force takes fields over from others.
// Subresource is "" for the object itself, or such as "status".
type ApplyWrite struct {
	Object      *unstructured.Unstructured
	Force       bool
	Subresource string
}

// PatchWrite is a patch of the given type.
type PatchWrite struct {
	Type types.PatchType
	Body []byte
	// Subresource is "" for the object itself, or such as "status".
	Subresource string
}

// DeleteWrite deletes the object with the UID of the Ref, if it has one.
type DeleteWrite struct {
	// Propagation is Background, Foreground or Orphan; "" is Background.
	Propagation string
	// GraceSeconds is nil for the object's own grace period.
	GraceSeconds *int64
}

// Op is what the write does to an object that is there.
func (w Write) Op() Op {
	if w.Delete != nil {
		return OpDelete
	}
	return OpUpdate
}
