package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"rutter/runbooks/step"
)

// discovery remembers what the server said about the groups it was asked for.
// Only those are ever asked for, so a broken aggregated API disturbs nobody.
type discovery struct {
	lock   sync.Mutex
	groups map[[2]string]*group // by group and the version asked for, which may be ""
}

// group is what is known of an API group. It is not changed once stored.
type group struct {
	versions  []string // the preferred one first
	resources map[string]map[string]resource
}

// resource is a resource in one version.
type resource struct {
	kind       string
	namespaced bool
	verbs      []string
}

// Resolve finds how the cluster serves a resource. What was found before is
// not asked for again; what was not found is.
func (c *Cluster) Resolve(ctx context.Context, res step.Resource) (step.Served, error) {
	c.lock.Lock()
	known := c.groups[[2]string{res.Group, res.Version}]
	c.lock.Unlock()
	if known != nil {
		if served, ok := known.find(res); ok {
			return served, nil
		}
	}
	return c.rediscover(ctx, res)
}

// forget drops all that is remembered.
func (c *Cluster) forget() {
	c.lock.Lock()
	defer c.lock.Unlock()
	clear(c.groups)
}

// rediscover asks the server, whatever is remembered.
func (c *Cluster) rediscover(ctx context.Context, res step.Resource) (step.Served, error) {
	g, err := c.discover(ctx, res)
	if err != nil {
		return step.Served{}, err
	}
	c.lock.Lock()
	c.groups[[2]string{res.Group, res.Version}] = g
	c.lock.Unlock()
	served, ok := g.find(res)
	if !ok {
		return step.Served{}, notServed(res)
	}
	return served, nil
}

func notServed(res step.Resource) error { return fmt.Errorf("%s: %w", res, step.ErrNotServed) }

// find looks for a resource in the version asked for, or else in each version
// from the preferred one on.
func (g *group) find(res step.Resource) (step.Served, bool) {
	versions := g.versions
	if res.Version != "" {
		versions = []string{res.Version}
	}
	for _, v := range versions {
		if r, ok := g.resources[v][res.Plural]; ok {
			return step.Served{Version: v, Kind: r.kind, Namespaced: r.namespaced}, true
		}
	}
	return step.Served{}, false
}

// discover asks for a group and for its versions until one has the resource.
func (c *Cluster) discover(ctx context.Context, res step.Resource) (*group, error) {
	g := &group{resources: map[string]map[string]resource{}}
	switch {
	case res.Version != "":
		g.versions = []string{res.Version}
	case res.Group == "":
		g.versions = []string{"v1"}
	default:
		var list metav1.APIGroup
		err := c.ask(ctx, res, groupPath(res.Group), &list)
		if isPlainNotFound(err) || apierrors.IsNotFound(err) {
			return g, nil
		}
		if err != nil {
			return nil, err
		}
		g.versions = append(g.versions, list.PreferredVersion.Version)
		for _, v := range list.Versions {
			if !slices.Contains(g.versions, v.Version) {
				g.versions = append(g.versions, v.Version)
			}
		}
	}
	for _, v := range g.versions {
		var list metav1.APIResourceList
		err := c.ask(ctx, res, versionPath(res.Group, v), &list)
		if isPlainNotFound(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		g.resources[v] = map[string]resource{}
		for _, r := range list.APIResources {
			g.resources[v][r.Name] = resource{r.Kind, r.Namespaced, r.Verbs}
		}
		if _, ok := g.find(res); ok {
			return g, nil
		}
	}
	return g, nil
}

func (c *Cluster) ask(ctx context.Context, res step.Resource, path string, into any) error {
	body, err := c.do(ctx, request{verb: "look up", what: res.String(), path: path})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("look up %s: the answer is no API discovery document", res)
	}
	return nil
}

func groupPath(group string) string { return "/apis/" + url.PathEscape(group) }

func versionPath(group, version string) string {
	if group == "" {
		return "/api/" + url.PathEscape(version)
	}
	return groupPath(group) + "/" + url.PathEscape(version)
}

func isPlainNotFound(err error) bool {
	var p plainNotFound
	return errors.As(err, &p) && code(err) == http.StatusNotFound
}
