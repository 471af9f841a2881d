package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Explain returns the verb that says why a deletion is stuck.
func Explain() *Kind {
	return &Kind{
		Name: "explain",
		Doc: "Says why a deletion is stuck, and changes nothing: what remains and which finalizers hold it, who should remove them, " +
			"what a namespace's conditions say, which aggregated APIs do not answer, and which webhooks nobody serves.\n\n" +
			"`owners` tells, by finalizer, who removes it. What the operator may not read is named in `unreadable`, and the rest is still told.",
		Example: `- id: why
  title: Why does it not go?
  explain:
    deletion: {resource: namespaces, name: demo, contents: [pods, persistentvolumeclaims]}
    owners: {kubernetes.io/pvc-protection: the volume controller}
`,
		Result: "`object` (null if it is gone), `exists`, `deleting`, `finalizers`, `remaining` (resource, namespace, name, finalizers, owner, deleting), " +
			"`conditions` (type, status, reason, message, and counts with name and count), and as lines of text `apiServices`, `webhooks` and `unreadable`",
		New: func() Action { return new(explain) },
	}
}

type explain struct {
	Deletion stuckDeletion     `yaml:"deletion,required" doc:"The object that does not go."`
	Owners   map[string]string `yaml:"owners" doc:"Who removes each finalizer."`
}

type stuckDeletion struct {
	Resource  string  `yaml:"resource,required" doc:"Its resource, as kubectl names it."`
	Namespace string  `yaml:"namespace" doc:"Its namespace, if it has one."`
	Name      string  `yaml:"name,required" doc:"Its name."`
	Contents  Strings `yaml:"contents,single" doc:"Resources to look through: those in the namespace that is to go, or in the object's own."`
}

// The resources that every explanation reads.
var (
	apiServices      = Resource{Plural: "apiservices", Group: "apiregistration.k8s.io"}
	mutatingHooks    = Resource{Plural: "mutatingwebhookconfigurations", Group: "admissionregistration.k8s.io"}
	validatingHooks  = Resource{Plural: "validatingwebhookconfigurations", Group: "admissionregistration.k8s.io"}
	endpointSlices   = Resource{Plural: "endpointslices", Group: "discovery.k8s.io"}
	serviceNameLabel = "kubernetes.io/service-name"
)

func (e *explain) Effect() Effect { return Reads }

func (e *explain) Check() []Problem {
	var ps []Problem
	for _, r := range append([]string{e.Deletion.Resource}, e.Deletion.Contents...) {
		if _, err := ParseResource(r); err != nil && !HasMark(r) {
			ps = append(ps, Problem{"deletion", err.Error(), ""})
		}
	}
	if e.Deletion.Name == "" {
		ps = append(ps, Problem{"deletion", "the name of the object is empty", "say which object does not go"})
	}
	if e.inside() == "" && len(e.Deletion.Contents) > 0 {
		ps = append(ps, Problem{"deletion", "contents are looked for in a namespace, and there is none", "drop contents"})
	}
	return ps
}

func (e *explain) target() (Ref, error) {
	res, err := ParseResource(e.Deletion.Resource)
	return Ref{Resource: res, Namespace: e.Deletion.Namespace, Name: e.Deletion.Name}, err
}

// inside is the namespace to look through.
func (e *explain) inside() string {
	if res, err := ParseResource(e.Deletion.Resource); err == nil && res.Unversioned() == (Resource{Plural: "namespaces"}) {
		return e.Deletion.Name
	}
	return e.Deletion.Namespace
}

func (e *explain) Permissions() []Permission {
	var ps []Permission
	if ref, err := e.target(); err == nil {
		ps = append(ps, permit(ref.Resource, ref.Namespace, ref.Name, "get")...)
	}
	for _, c := range e.Deletion.Contents {
		if res, err := ParseResource(c); err == nil {
			ps = append(ps, permit(res, e.inside(), "", "list")...)
		}
	}
	for _, res := range []Resource{apiServices, mutatingHooks, validatingHooks, endpointSlices} {
		ps = append(ps, permit(res, "", "", "list")...)
	}
	return ps
}

func (e *explain) Kubectl() []Line {
	get := []string{"kubectl", "get", typed([]string{e.Deletion.Resource})[0], e.Deletion.Name}
	if e.Deletion.Namespace != "" {
		get = append(get, "-n", e.Deletion.Namespace)
	}
	lines := []Line{{Words: append(get, "--ignore-not-found", "-o", "yaml")}}
	if len(e.Deletion.Contents) > 0 {
		lines = append(lines, Line{Note: "what is inside; leave out what the server doesn't have", Words: []string{"kubectl", "get", strings.Join(typed(e.Deletion.Contents), ","), "-n", e.inside(),
			"-o", "custom-columns=KIND:.kind,NAME:.metadata.name,DELETING:.metadata.deletionTimestamp,FINALIZERS:.metadata.finalizers"}})
	}
	return append(lines,
		Line{Note: "aggregated APIs that do not answer", Words: []string{"kubectl", "get", apiServices.String(),
			"-o", "custom-columns=NAME:.metadata.name,AVAILABLE:.status.conditions[?(@.type==\"Available\")].status"}},
		Line{Note: "webhooks and the services behind them", Words: []string{"kubectl", "get", mutatingHooks.String() + "," + validatingHooks.String(),
			"-o", "custom-columns=NAME:.metadata.name,SERVICE:.webhooks[*].clientConfig.service.name"}},
		Line{Note: "and who serves those", Words: []string{"kubectl", "get", endpointSlices.String(), "-A",
			"-o", "custom-columns=SERVICE:.metadata.labels.kubernetes\\.io/service-name,READY:.endpoints[*].conditions.ready"}})
}

func (e *explain) Preview(ctx context.Context, r Reader) (*Preview, error) {
	res, err := e.read(ctx, r)
	if err != nil {
		return nil, err
	}
	return &Preview{Said: res.Said, Value: res.Value, Known: true}, nil
}

func (e *explain) Run(ctx context.Context, c Cluster, _ Host) (*Result, error) { return e.read(ctx, c) }

// explanation gathers what is found; what cannot be read is noted.
type explanation struct {
	*explain
	resources  map[Resource]bool // those that are to go
	unreadable []any
	table      Table
}

func (e *explain) read(ctx context.Context, r Reader) (*Result, error) {
	if err := refuse(e); err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	ref, err := e.target()
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	obj, err := r.Get(ctx, ref)
	if apierrors.IsNotFound(err) {
		obj, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("explain %s: %w", ref, err)
	}
	x := &explanation{explain: e, resources: map[Resource]bool{ref.Resource.Unversioned(): true},
		table: Table{Head: []string{"WHAT", "STATE", "WHO REMOVES THE FINALIZER"}}}
	value := map[string]any{"object": nil, "exists": obj != nil, "deleting": false, "finalizers": []any{}, "conditions": []any{}}
	if obj != nil {
		value["object"] = obj.Object
		value["deleting"] = obj.GetDeletionTimestamp() != nil
		value["finalizers"] = anys(obj.GetFinalizers())
		value["conditions"] = x.conditions(obj)
		x.row(ref.Resource, obj)
	}
	value["remaining"] = x.remaining(ctx, r)
	value["apiServices"] = x.deadAPIs(ctx, r)
	value["webhooks"] = x.deadWebhooks(ctx, r)
	value["unreadable"] = append([]any{}, x.unreadable...)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("explain %s: %w", ref, context.Cause(ctx))
	}
	return &Result{Value: value, Said: x.said(ref, obj, value), Table: &x.table}, nil
}

func (x *explanation) row(res Resource, o *unstructured.Unstructured) {
	x.table.Rows = append(x.table.Rows, []string{res.String() + "/" + o.GetName(), held(o), x.owner(o.GetFinalizers())})
}

func (x *explanation) said(ref Ref, obj *unstructured.Unstructured, value map[string]any) string {
	s := ref.String() + " is gone"
	if obj != nil {
		s = ref.String() + ": " + held(obj)
	}
	count := func(key, one, many string) {
		switch n := len(value[key].([]any)); n {
		case 0:
		case 1:
			s += "; " + one
		default:
			s += fmt.Sprintf("; %d %s", n, many)
		}
	}
	count("remaining", "1 object remains", "objects remain")
	if obj == nil && len(value["remaining"].([]any)) > 0 && x.inside() == ref.Name {
		s += " in a namespace that is gone: make it again before you touch them"
	}
	count("apiServices", "1 aggregated API does not answer", "aggregated APIs do not answer")
	count("webhooks", "1 webhook configuration has nobody who answers", "webhook configurations have nobody who answers")
	count("unreadable", "1 thing could not be read", "things could not be read")
	return s
}

// list lists a resource, or notes why it cannot.
func (x *explanation) list(ctx context.Context, r Reader, q Query) []*unstructured.Unstructured {
	objs, err := r.List(ctx, q)
	if err != nil && !errors.Is(err, ErrNotServed) {
		x.unreadable = append(x.unreadable, q.Resource.String()+": "+err.Error())
	}
	return objs
}

func (x *explanation) remaining(ctx context.Context, r Reader) []any {
	out := []any{}
	for _, c := range x.Deletion.Contents {
		res, err := ParseResource(c)
		if err != nil {
			continue
		}
		x.resources[res.Unversioned()] = true
		for _, o := range x.list(ctx, r, Query{Resource: res, Namespace: x.inside()}) {
			out = append(out, map[string]any{"resource": res.String(), "namespace": o.GetNamespace(), "name": o.GetName(),
				"finalizers": anys(o.GetFinalizers()), "owner": x.owner(o.GetFinalizers()), "deleting": o.GetDeletionTimestamp() != nil})
			x.row(res, o)
		}
	}
	return out
}

func (x *explanation) owner(finalizers []string) string {
	var who []string
	for _, f := range finalizers {
		if o := x.Owners[f]; o != "" && !slices.Contains(who, o) {
			who = append(who, o)
		}
	}
	return strings.Join(who, "; ")
}

// conditions returns what an object's conditions say. Of a namespace those are
// told that are about trouble, with what they count.
func (x *explanation) conditions(obj *unstructured.Unstructured) []any {
	out := []any{}
	for _, c := range conditionsOf(obj) {
		if isNamespace(obj) && (c.status != "True" || !namespaceConditions[c.kind]) {
			continue
		}
		counts := []any{}
		for _, m := range countRE.FindAllStringSubmatch(c.message, -1) {
			name := strings.TrimSuffix(m[1], ".")
			n, err := strconv.ParseInt(m[2], 10, 64)
			if err != nil {
				continue
			}
			counts = append(counts, map[string]any{"name": name, "count": n})
			if res, err := ParseResource(name); err == nil && c.kind == "NamespaceContentRemaining" {
				x.resources[res] = true
			}
		}
		out = append(out, map[string]any{"type": c.kind, "status": c.status, "reason": c.reason, "message": c.message, "counts": counts})
	}
	return out
}

// deadAPIs lists the APIServices that are not available: while one is not, no
// namespace can be deleted.
func (x *explanation) deadAPIs(ctx context.Context, r Reader) []any {
	out := []any{}
	for _, o := range x.list(ctx, r, Query{Resource: apiServices}) {
		for _, c := range conditionsOf(o) {
			if c.kind == "Available" && c.status != "True" {
				out = append(out, o.GetName()+": "+c.String())
				x.table.Rows = append(x.table.Rows, []string{"apiservice/" + o.GetName(), c.String(), ""})
			}
		}
	}
	return out
}

// deadWebhooks lists the webhook configurations that are asked about what is to
// go, by a Service that has no ready endpoint.
func (x *explanation) deadWebhooks(ctx context.Context, r Reader) []any {
	out := []any{}
	known := len(x.unreadable)
	ready := readyServices(x.list(ctx, r, Query{Resource: endpointSlices}))
	if len(x.unreadable) > known {
		return out // nothing can be said of the services
	}
	for _, res := range []Resource{mutatingHooks, validatingHooks} {
		for _, o := range x.list(ctx, r, Query{Resource: res}) {
			for _, call := range x.strictCalls(o) {
				if !ready[call.service] {
					why := "nothing serves " + call.service + ", which is asked about " + firstOf(call.about)
					out = append(out, res.Plural+"/"+o.GetName()+": "+why)
					x.table.Rows = append(x.table.Rows, []string{res.Plural + "/" + o.GetName(), why, ""})
				}
			}
		}
	}
	return out
}

// readyServices returns the services, as namespace/name, that somebody serves.
func readyServices(slices []*unstructured.Unstructured) map[string]bool {
	ready := map[string]bool{}
	for _, o := range slices {
		endpoints, _, _ := unstructured.NestedSlice(o.Object, "endpoints")
		for _, ep := range endpoints {
			m, _ := ep.(map[string]any)
			// A missing condition counts as ready, as the API says.
			if is, found, _ := unstructured.NestedBool(m, "conditions", "ready"); is || !found {
				ready[o.GetNamespace()+"/"+o.GetLabels()[serviceNameLabel]] = true
			}
		}
	}
	return ready
}

// serviceCall is a service that is asked about changes: "UPDATE of pods".
type serviceCall struct {
	service string
	about   []string
}

// strictCalls returns the services that a configuration asks about what is to
// go, and without whose answer the API server refuses.
func (x *explanation) strictCalls(o *unstructured.Unstructured) []serviceCall {
	var calls []serviceCall
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, h := range hooks {
		hook, _ := h.(map[string]any)
		name, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "name")
		namespace, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "namespace")
		about := x.askedAbout(hook)
		if name == "" || hook["failurePolicy"] == "Ignore" || len(about) == 0 {
			continue
		}
		service := namespace + "/" + name
		i := slices.IndexFunc(calls, func(c serviceCall) bool { return c.service == service })
		if i < 0 {
			i, calls = len(calls), append(calls, serviceCall{service: service})
		}
		for _, a := range about {
			if !slices.Contains(calls[i].about, a) {
				calls[i].about = append(calls[i].about, a)
			}
		}
	}
	return calls
}

// askedAbout returns what a webhook is asked about of what is to go. Removing a
// finalizer is an update. Selectors are not looked at: it could match.
func (x *explanation) askedAbout(hook map[string]any) []string {
	var about []string
	rules, _, _ := unstructured.NestedSlice(hook, "rules")
	for _, item := range rules {
		rule, _ := item.(map[string]any)
		for res := range x.resources {
			if !matches(rule["apiGroups"], res.Group) || !matches(rule["resources"], res.Plural) {
				continue
			}
			for _, op := range []string{"UPDATE", "DELETE"} {
				if matches(rule["operations"], op) {
					about = append(about, op+" of "+res.String())
				}
			}
		}
	}
	slices.Sort(about)
	return about
}

// matches reports whether a list of a webhook's rule has an entry, or a star.
func matches(list any, entry string) bool {
	items, _ := list.([]any)
	return slices.Contains(items, any(entry)) || slices.Contains(items, any("*"))
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
