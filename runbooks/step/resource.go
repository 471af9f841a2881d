package step

import (
	"fmt"
	"regexp"
	"strings"
)

// Resource names a kind of object as kubectl does: plural.group, or
// plural.version.group to ask for one version. The zero Group is the core
// group.
type Resource struct {
	Plural  string
	Version string // "" for the one the server prefers
	Group   string
}

var (
	versionRE  = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
	resourceRE = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// ParseResource reads names such as "pods", "deployments.apps" and
// "connections.v1beta1.networking.liqo.io".
func ParseResource(s string) (Resource, error) {
	if !resourceRE.MatchString(s) {
		return Resource{}, fmt.Errorf("%q is no resource: want plural.group, such as pods or deployments.apps", s)
	}
	plural, group, _ := strings.Cut(s, ".")
	r := Resource{Plural: plural, Group: group}
	if v, rest, _ := strings.Cut(group, "."); versionRE.MatchString(v) {
		r.Version, r.Group = v, rest
	}
	return r, nil
}

// String returns the name as kubectl takes it. The core group has one version,
// and kubectl would read pods.v1 as a resource of a group called v1.
func (r Resource) String() string {
	switch {
	case r.Group == "":
		return r.Plural
	case r.Version == "":
		return r.Plural + "." + r.Group
	}
	return r.Plural + "." + r.Version + "." + r.Group
}

// Unversioned returns r without a version: the resource that RBAC knows.
func (r Resource) Unversioned() Resource {
	r.Version = ""
	return r
}

// Permission is one thing that a cluster must allow: Verb on Resource, in
// Namespace ("" is everywhere, or a cluster-scoped resource), on Name ("" is
// any). Subresource is such as "status".
type Permission struct {
	Verb        string
	Resource    Resource
	Subresource string
	Namespace   string
	Name        string
}

// String returns the permission as a sentence fragment: "delete pods in demo".
func (p Permission) String() string {
	s := p.Verb + " " + p.Resource.Unversioned().String()
	if p.Subresource != "" {
		s += "/" + p.Subresource
	}
	if p.Name != "" {
		s += " " + p.Name
	}
	if p.Namespace != "" {
		s += " in namespace " + p.Namespace
	}
	return s
}

// Allows reports whether holding p is enough for asked.
func (p Permission) Allows(asked Permission) bool {
	return p.Verb == asked.Verb &&
		p.Resource.Unversioned() == asked.Resource.Unversioned() &&
		p.Subresource == asked.Subresource &&
		(p.Namespace == "" || p.Namespace == asked.Namespace) &&
		(p.Name == "" || p.Name == asked.Name)
}

// permit returns a permission for each verb.
func permit(res Resource, namespace, name string, verbs ...string) []Permission {
	ps := make([]Permission, len(verbs))
	for i, v := range verbs {
		ps[i] = Permission{Verb: v, Resource: res.Unversioned(), Namespace: namespace, Name: name}
	}
	return ps
}
