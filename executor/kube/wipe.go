package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"rutter/runbooks/step"
)

// Snapshot says which objects a practice cluster had at some time, so that
// what was made since can be removed. It can be kept as JSON.
type Snapshot struct {
	// Cluster is the UID of the namespace kube-system.
	Cluster types.UID `json:"cluster"`
	// Objects are the UIDs of all objects.
	Objects []types.UID `json:"objects"`
}

// Snapshot records all objects of the cluster. It asks for every resource
// there is; what cannot be listed is left out.
func (c *Cluster) Snapshot(ctx context.Context) (*Snapshot, error) {
	all, err := c.everything(ctx)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{}
	for _, o := range all {
		s.Objects = append(s.Objects, o.uid)
		if o.isNamespace() && o.ref.Name == "kube-system" {
			s.Cluster = o.uid
		}
	}
	slices.Sort(s.Objects)
	return s, nil
}

// RemoveSince removes everything that is not in the snapshot, and returns when
// it is gone. Nobody is asked: finalizers are taken off, which no cluster that
// matters to anyone survives unharmed. It is for practice clusters only, and
// refuses any other cluster than the snapshot's. What controllers keep making
// by themselves stays.
func (c *Cluster) RemoveSince(ctx context.Context, s *Snapshot) error {
	id, err := c.Get(ctx, step.Ref{Resource: step.Resource{Plural: "namespaces"}, Name: "kube-system"})
	if err != nil {
		return err
	}
	if id.GetUID() != s.Cluster {
		return errors.New("remove what was made since: the snapshot is of another cluster")
	}
	var back backoff
	defer c.forget()
	for {
		left, err := c.since(ctx, s)
		if err != nil || len(left) == 0 {
			return err
		}
		trouble := c.removeAll(ctx, firstOf(left))
		if pause(ctx, back.next()/4) != nil {
			return fmt.Errorf("remove what was made since: %d objects stay, such as %s: %w", len(left), left[0].ref,
				errors.Join(ctx.Err(), trouble))
		}
	}
}

// found is an object's metadata.
type found struct {
	ref        step.Ref // without the UID
	place      place
	uid        types.UID
	labels     map[string]string
	finalizers []string
	deleting   bool
	empty      bool // of a namespace
}

// blockers are what can keep other objects from being listed or deleted.
var blockers = []string{
	"apiservices.apiregistration.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"validatingwebhookconfigurations.admissionregistration.k8s.io",
	"mutatingadmissionpolicies.admissionregistration.k8s.io",
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io",
	"validatingadmissionpolicies.admissionregistration.k8s.io",
	"validatingadmissionpolicybindings.admissionregistration.k8s.io",
}

// firstOf returns the blockers among the objects, or else all of them.
func firstOf(objs []found) []found {
	var first []found
	for _, o := range objs {
		if slices.Contains(blockers, o.ref.Resource.String()) {
			first = append(first, o)
		}
	}
	if len(first) > 0 {
		return first
	}
	return objs
}

// since returns what is not in the snapshot and would not come again: in a
// namespace that goes, nothing does.
func (c *Cluster) since(ctx context.Context, s *Snapshot) ([]found, error) {
	all, err := c.everything(ctx)
	if err != nil {
		return nil, err
	}
	going := map[string]bool{}
	for _, o := range all {
		if o.isNamespace() && o.deleting {
			going[o.ref.Name] = true
		}
	}
	left := slices.DeleteFunc(all, func(o found) bool {
		_, old := slices.BinarySearch(s.Objects, o.uid)
		return old || comesByItself(o) && !going[o.ref.Namespace]
	})
	full := map[string]bool{}
	for _, o := range left {
		full[o.ref.Namespace] = true
	}
	for i, o := range left {
		left[i].empty = o.isNamespace() && !full[o.ref.Name]
	}
	return left, nil
}

func (o found) isNamespace() bool { return o.ref.Resource.String() == "namespaces" }

// comesByItself reports whether the control plane makes the object, and would
// make it again.
func comesByItself(o found) bool {
	if o.labels["kubernetes.io/bootstrapping"] != "" || o.labels["kube-aggregator.kubernetes.io/automanaged"] != "" {
		return true
	}
	switch o.ref.Resource.String() {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpoints", "endpointslices.discovery.k8s.io",
		"ipaddresses.networking.k8s.io", "flowschemas.flowcontrol.apiserver.k8s.io",
		"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io":
		return true
	case "configmaps":
		return o.ref.Name == "kube-root-ca.crt" || o.ref.Name == "extension-apiserver-authentication"
	case "serviceaccounts":
		return o.ref.Name == "default" || o.ref.Namespace == "kube-system"
	case "namespaces":
		return o.ref.Name == "default" || strings.HasPrefix(o.ref.Name, "kube-")
	case "priorityclasses.scheduling.k8s.io":
		return strings.HasPrefix(o.ref.Name, "system-")
	case "servicecidrs.networking.k8s.io":
		return o.ref.Name == "kubernetes"
	}
	return false
}

func (c *Cluster) removeAll(ctx context.Context, objs []found) error {
	var mu sync.Mutex
	var trouble error
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(accessLimit)
	for _, o := range objs {
		g.Go(func() error {
			if err := c.remove(ctx, o); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				mu.Lock()
				defer mu.Unlock()
				trouble = err // one is enough, and the next pass tries again
			}
			return nil
		})
	}
	return errors.Join(g.Wait(), trouble)
}

// remove deletes an object and takes off its finalizers, but for those with
// which the server itself cleans up.
func (c *Cluster) remove(ctx context.Context, o found) error {
	if !o.deleting {
		grace := int64(0)
		r, err := deleteRequest(o.place, o.uid, &step.DeleteWrite{GraceSeconds: &grace}, false)
		if err != nil {
			return err
		}
		if _, err := c.do(ctx, r); err != nil {
			return err
		}
	}
	if o.deleting && o.empty {
		// The namespace controller would do it in the end, after some seconds.
		if err := c.finalize(ctx, o); err != nil {
			return err
		}
	}
	if len(o.finalizers) == 0 || slices.Contains(o.finalizers, "customresourcecleanup.apiextensions.k8s.io") {
		return nil
	}
	r, err := patchRequest(o.place, pin{uid: o.uid}, &step.PatchWrite{Type: types.MergePatchType, Body: []byte(`{"metadata":{"finalizers":null}}`)})
	if err != nil {
		return err
	}
	_, err = c.do(ctx, r)
	return err
}

// finalize takes the finalizer off a namespace that is not in its metadata.
func (c *Cluster) finalize(ctx context.Context, o found) error {
	r := o.place.request("finalize")
	r.method, r.path = http.MethodPut, r.path+"/finalize"
	var err error
	r.body, err = json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": o.ref.Name, "uid": o.uid}, "spec": map[string]any{},
	})
	if err != nil {
		return err
	}
	_, err = c.do(ctx, r)
	return err
}

// everything lists the metadata of all objects of all resources that can be
// listed and deleted. Groups and resources that do not answer are left out.
func (c *Cluster) everything(ctx context.Context) ([]found, error) {
	places, err := c.allPlaces(ctx)
	if err != nil {
		return nil, err
	}
	lists := make([][]found, len(places))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(accessLimit)
	for i, p := range places {
		g.Go(func() error {
			lists[i] = c.metadata(ctx, p)
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("list everything: %w", err)
	}
	return slices.Concat(lists...), nil
}

// metadata returns nil if the resource cannot be listed just now.
func (c *Cluster) metadata(ctx context.Context, p place) []found {
	r := p.request("list")
	r.accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	body, err := c.attempt(ctx, c.current(), r)
	if err != nil {
		return nil
	}
	var list metav1.PartialObjectMetadataList
	if json.Unmarshal(body, &list) != nil {
		return nil
	}
	objs := make([]found, len(list.Items))
	for i, o := range list.Items {
		at := p
		at.namespace, at.name = o.Namespace, o.Name
		objs[i] = found{
			ref:   step.Ref{Resource: p.res.Unversioned(), Namespace: o.Namespace, Name: o.Name},
			place: at, uid: o.UID, labels: o.Labels, finalizers: o.Finalizers, deleting: o.DeletionTimestamp != nil,
		}
	}
	return objs
}

// allPlaces returns where each resource is served in its preferred version.
func (c *Cluster) allPlaces(ctx context.Context) ([]place, error) {
	body, err := c.do(ctx, request{verb: "look up", what: "the API groups", path: "/apis"})
	if err != nil {
		return nil, err
	}
	var groups metav1.APIGroupList
	if err := json.Unmarshal(body, &groups); err != nil {
		return nil, errors.New("look up the API groups: the answer is no API discovery document")
	}
	versions := []metav1.GroupVersionForDiscovery{{GroupVersion: "v1", Version: "v1"}}
	for _, g := range groups.Groups {
		versions = append(versions, g.PreferredVersion)
	}
	lists := make([][]place, len(versions))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(accessLimit)
	for i, v := range versions {
		g.Go(func() error {
			group := strings.TrimSuffix(strings.TrimSuffix(v.GroupVersion, v.Version), "/")
			body, err := c.attempt(ctx, c.current(), request{path: versionPath(group, v.Version), query: url.Values{}})
			var list metav1.APIResourceList
			if err != nil || json.Unmarshal(body, &list) != nil {
				return ctx.Err() // a broken group hides its objects, not those of others
			}
			for _, r := range list.APIResources {
				if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") && !strings.Contains(r.Name, "/") {
					lists[i] = append(lists[i], place{
						res:    step.Resource{Plural: r.Name, Group: group},
						served: step.Served{Version: v.Version, Kind: r.Kind, Namespaced: r.Namespaced},
					})
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("look up the API groups: %w", err)
	}
	return slices.Concat(lists...), nil
}
