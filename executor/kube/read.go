package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"rutter/runbooks/step"
)

// pageSize is how many objects a list asks for at a time.
const pageSize = 500

// place is where a resource or an object is on the server.
type place struct {
	res       step.Resource
	served    step.Served
	namespace string
	name      string
}

// locate resolves a resource and refuses a namespace where there is none. For
// one object it refuses the reverse too, and names that no object can have.
func (c *Cluster) locate(ctx context.Context, res step.Resource, namespace, name string, one bool) (place, error) {
	served, err := c.Resolve(ctx, res)
	if err != nil {
		return place{}, err
	}
	p := place{res, served, namespace, name}
	switch {
	case namespace != "" && !served.Namespaced:
		return p, fmt.Errorf("%s are cluster-scoped, but namespace %s was given", res, namespace)
	case one && namespace == "" && served.Namespaced:
		return p, fmt.Errorf("%s live in namespaces, but none was given", res)
	case one && name == "":
		return p, fmt.Errorf("no name of the %s was given", res)
	}
	for _, segment := range []string{namespace, name} {
		if segment == "" {
			continue
		}
		if problems := rest.IsValidPathSegmentName(segment); len(problems) > 0 {
			return p, fmt.Errorf("%q is no name: it %s", segment, problems[0])
		}
	}
	return p, nil
}

func (p place) path() string {
	path := versionPath(p.res.Group, p.served.Version)
	if p.namespace != "" {
		path += "/namespaces/" + url.PathEscape(p.namespace)
	}
	path += "/" + url.PathEscape(p.res.Plural)
	if p.name != "" {
		path += "/" + url.PathEscape(p.name)
	}
	return path
}

// request returns a request to the place.
func (p place) request(verb string) request {
	return request{verb: verb, what: p.String(), path: p.path(), query: url.Values{}, resource: p.groupResource(), name: p.name}
}

// String returns the place as "pods/api in demo".
func (p place) String() string {
	s := p.res.String()
	if p.name != "" {
		s += "/" + p.name
	}
	if p.namespace != "" {
		s += " in " + p.namespace
	}
	return s
}

func (p place) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: p.res.Group, Resource: p.res.Plural}
}

// onObject does something with one object, and does it again if the server has
// come to serve the resource in another way than remembered.
func (c *Cluster) onObject(ctx context.Context, ref step.Ref, act func(p place) error) error {
	p, err := c.locate(ctx, ref.Resource, ref.Namespace, ref.Name, true)
	if err != nil {
		return err
	}
	var back backoff
	for tries := 1; ; tries++ {
		err := act(p)
		if !isPlainNotFound(err) {
			return err
		}
		served, again := c.rediscover(ctx, ref.Resource)
		if again != nil {
			return again
		}
		// A new definition is announced a moment before it can be used.
		if served == p.served && (tries == maxTries || pause(ctx, back.next()) != nil) {
			return err
		}
		p.served = served
	}
}

// maxTries is how often an object is asked for at a path that the server
// announces and does not know.
const maxTries = 4

// Get reads one object. Another one of the same name is not found if the ref
// has a UID.
func (c *Cluster) Get(ctx context.Context, ref step.Ref) (*unstructured.Unstructured, error) {
	var o *unstructured.Unstructured
	err := c.onObject(ctx, ref, func(p place) error {
		r := p.request("get")
		body, err := c.do(ctx, r)
		if err != nil {
			return err
		}
		if o, err = object(body); err != nil {
			return r.wrap(err)
		}
		if ref.UID != "" && o.GetUID() != ref.UID {
			return r.wrap(apierrors.NewNotFound(p.groupResource(), ref.Name))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// object decodes one object.
func object(body []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &o.Object); err != nil || o.GetKind() == "" {
		return nil, errors.New("the answer is no Kubernetes object")
	}
	return o, nil
}

// List reads all objects that match, page by page. If the server forgets the
// state that the pages are of, it starts again.
func (c *Cluster) List(ctx context.Context, q step.Query) ([]*unstructured.Unstructured, error) {
	objs, _, err := c.list(ctx, q)
	return objs, err
}

// maxRestarts is how often a list starts again before it asks for everything
// in one page, which cannot expire.
const maxRestarts = 2

// list is List with the resource version that the list is of.
func (c *Cluster) list(ctx context.Context, q step.Query) ([]*unstructured.Unstructured, string, error) {
	p, err := c.locateAll(ctx, q)
	if err != nil {
		return nil, "", err
	}
	for restarts := 0; ; restarts++ {
		size := pageSize
		if restarts > maxRestarts {
			size = 0
		}
		objs, version, err := c.pages(ctx, p, q, size)
		switch {
		case err == nil:
			return objs, version, nil
		case isPlainNotFound(err):
			served, again := c.rediscover(ctx, q.Resource)
			if again != nil {
				return nil, "", again
			}
			if served == p.served || restarts > maxRestarts {
				return nil, "", err
			}
			p.served = served
		case code(err) != http.StatusGone || size == 0:
			return nil, "", err
		}
	}
}

func (c *Cluster) locateAll(ctx context.Context, q step.Query) (place, error) {
	p, err := c.locate(ctx, q.Resource, q.Namespace, "", false)
	if err != nil {
		return p, err
	}
	if _, err := fields.ParseSelector(q.Fields); err != nil {
		return p, fmt.Errorf("field selector %q: %w", q.Fields, err)
	}
	return p, nil
}

func (c *Cluster) pages(ctx context.Context, p place, q step.Query, size int) ([]*unstructured.Unstructured, string, error) {
	objs := []*unstructured.Unstructured{}
	r := p.request("list")
	selectors(r.query, q)
	if size > 0 {
		r.query.Set("limit", strconv.Itoa(size))
	}
	for {
		body, err := c.do(ctx, r)
		if err != nil {
			return nil, "", err
		}
		var page listPage
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, "", r.wrap(errors.New("the answer is no Kubernetes list"))
		}
		objs = slices.Grow(objs, len(page.Items))
		for _, item := range page.Items {
			o := &unstructured.Unstructured{Object: item}
			// The items of some lists leave out what the list says already.
			if o.GetKind() == "" {
				o.SetKind(p.served.Kind)
				o.SetAPIVersion(page.APIVersion)
			}
			objs = append(objs, o)
		}
		if page.Metadata.Continue == "" {
			return objs, page.Metadata.ResourceVersion, nil
		}
		r.query.Set("continue", page.Metadata.Continue)
	}
}

type listPage struct {
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []map[string]any `json:"items"`
}

// selectors puts what a query selects into the parameters of a request. A name
// is a field, so that RBAC rules for that name are enough.
func selectors(v url.Values, q step.Query) {
	if q.Selector != "" {
		v.Set("labelSelector", q.Selector)
	}
	field := q.Fields
	if q.Name != "" {
		byName := fields.OneTermEqualSelector("metadata.name", q.Name).String()
		if field != "" {
			byName += "," + field
		}
		field = byName
	}
	if field != "" {
		v.Set("fieldSelector", field)
	}
}
