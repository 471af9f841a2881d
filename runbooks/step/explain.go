package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		Result: "`exists`, `deleting`, `finalizers`, `remaining` (resource, namespace, name, finalizers, owner, deleting), " +
			"`conditions`, `apiServices`, `webhooks` and `unreadable`",
		New: func() Action { return new(explain) },
	}
}

type explain struct {
	Deletion stuckDeletion     `yaml:"deletion,required" doc:"The object that does not go."`
	Owners   map[string]string `yaml:"owners" doc:"Who removes each finalizer."`
}

type stuckDeletion struct {
	Resource  string   `yaml:"resource,required" doc:"Its resource, as kubectl names it."`
	Namespace string   `yaml:"namespace" doc:"Its namespace, if it has one."`
	Name      string   `yaml:"name,required" doc:"Its name."`
	Contents  []string `yaml:"contents" doc:"Resources to look through, where it is a namespace."`
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
	return ps
}

func (e *explain) target() (Ref, error) {
	res, err := ParseResource(e.Deletion.Resource)
	return Ref{Resource: res, Namespace: e.Deletion.Namespace, Name: e.Deletion.Name}, err
}

func (e *explain) Permissions() []Permission {
	var ps []Permission
	if ref, err := e.target(); err == nil {
		ps = append(ps, permit(ref.Resource, ref.Namespace, ref.Name, "get")...)
	}
	for _, c := range e.Deletion.Contents {
		if res, err := ParseResource(c); err == nil {
			ps = append(ps, permit(res, e.Deletion.Name, "", "list")...)
		}
	}
	for _, res := range []Resource{apiServices, mutatingHooks, validatingHooks, endpointSlices} {
		ps = append(ps, permit(res, "", "", "list")...)
	}
	return ps
}

func (e *explain) Kubectl() []Line {
	get := []string{"kubectl", "get", e.Deletion.Resource, e.Deletion.Name}
	if e.Deletion.Namespace != "" {
		get = append(get, "-n", e.Deletion.Namespace)
	}
	lines := []Line{{Words: append(get, "--ignore-not-found", "-o", "yaml")}}
	if len(e.Deletion.Contents) > 0 {
		lines = append(lines, Line{Words: []string{"kubectl", "get", strings.Join(e.Deletion.Contents, ","), "-n", e.Deletion.Name,
			"-o", "custom-columns=KIND:.kind,NAME:.metadata.name,DELETING:.metadata.deletionTimestamp,FINALIZERS:.metadata.finalizers"}})
	}
	return append(lines,
		Line{Note: "aggregated APIs that do not answer", Words: []string{"kubectl", "get", apiServices.String(),
			"-o", "custom-columns=NAME:.metadata.name,AVAILABLE:.status.conditions[?(@.type==\"Available\")].status"}},
		Line{Note: "webhooks and the services behind them", Words: []string{"kubectl", "get", mutatingHooks.String() + "," + validatingHooks.String(),
			"-o", "custom-columns=NAME:.metadata.name,SERVICE:.webhooks[*].clientConfig.service.name"}})
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
	unreadable []any
	table      Table
}

func (e *explain) read(ctx context.Context, r Reader) (*Result, error) {
	ref, err := e.target()
	if err != nil {
		return nil, err
	}
	obj, err := r.Get(ctx, ref)
	if apierrors.IsNotFound(err) {
		obj, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("explain %s: %w", ref, err)
	}
	x := &explanation{explain: e, table: Table{Head: []string{"WHAT", "STATE", "WHO REMOVES THE FINALIZER"}}}
	value := map[string]any{"exists": obj != nil, "deleting": obj != nil && obj.GetDeletionTimestamp() != nil, "finalizers": []any{}, "conditions": []any{}}
	if obj != nil {
		value["finalizers"] = anys(obj.GetFinalizers())
		value["conditions"] = trueConditions(obj)
	}
	value["remaining"] = x.remaining(ctx, r)
	value["apiServices"] = x.deadAPIs(ctx, r)
	value["webhooks"] = x.deadWebhooks(ctx, r)
	value["unreadable"] = nonNil(x.unreadable)
	return &Result{Value: value, Said: x.said(ref, obj, value), Table: &x.table}, nil
}

func (x *explanation) said(ref Ref, obj *unstructured.Unstructured, value map[string]any) string {
	if obj == nil {
		return ref.String() + " is not there"
	}
	s := ref.String() + ": " + held(obj)
	for _, part := range []struct{ key, text string }{{"remaining", "objects remain"}, {"apiServices", "aggregated APIs do not answer"}, {"webhooks", "webhooks are not served"}} {
		if n := len(value[part.key].([]any)); n > 0 {
			s += fmt.Sprintf("; %d %s", n, part.text)
		}
	}
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
		for _, o := range x.list(ctx, r, Query{Resource: res, Namespace: x.Deletion.Name}) {
			owner := x.owner(o.GetFinalizers())
			out = append(out, map[string]any{"resource": res.String(), "namespace": o.GetNamespace(), "name": o.GetName(),
				"finalizers": anys(o.GetFinalizers()), "owner": owner, "deleting": o.GetDeletionTimestamp() != nil})
			x.table.Rows = append(x.table.Rows, []string{res.String() + "/" + o.GetName(), held(o), owner})
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

// trueConditions returns the conditions of a namespace that say something,
// with what they count.
func trueConditions(obj *unstructured.Unstructured) []any {
	out := []any{}
	conds, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conds {
		m, ok := c.(map[string]any)
		if !ok || m["status"] != "True" {
			continue
		}
		counts := []any{}
		message := fmt.Sprint(orNone(m["message"]))
		for _, match := range countRE.FindAllStringSubmatch(message, -1) {
			counts = append(counts, strings.TrimSuffix(match[1], ".")+": "+match[2])
		}
		out = append(out, map[string]any{"type": m["type"], "reason": orNone(m["reason"]), "message": message, "counts": counts})
	}
	return out
}

// deadAPIs lists the APIServices that are not available: while one is not, no
// namespace can be deleted.
func (x *explanation) deadAPIs(ctx context.Context, r Reader) []any {
	out := []any{}
	for _, o := range x.list(ctx, r, Query{Resource: apiServices}) {
		if ok, why := conditionTrue(o, "Available"); !ok && !strings.HasSuffix(why, "is not set") {
			out = append(out, o.GetName()+": "+why)
			x.table.Rows = append(x.table.Rows, []string{"apiservice/" + o.GetName(), why, ""})
		}
	}
	return out
}

// deadWebhooks lists the webhooks whose Service has no ready endpoint.
func (x *explanation) deadWebhooks(ctx context.Context, r Reader) []any {
	ready := map[string]bool{}
	known := len(x.unreadable)
	for _, o := range x.list(ctx, r, Query{Resource: endpointSlices}) {
		eps, _, _ := unstructured.NestedSlice(o.Object, "endpoints")
		for _, ep := range eps {
			if m, ok := ep.(map[string]any); ok {
				// A missing condition counts as ready, as the API says.
				if is, found, _ := unstructured.NestedBool(m, "conditions", "ready"); is || !found {
					ready[o.GetNamespace()+"/"+o.GetLabels()[serviceNameLabel]] = true
				}
			}
		}
	}
	out := []any{}
	if len(x.unreadable) > known {
		return out // nothing can be said of the services
	}
	for _, res := range []Resource{mutatingHooks, validatingHooks} {
		for _, o := range x.list(ctx, r, Query{Resource: res}) {
			for _, service := range webhookServices(o) {
				if !ready[service] {
					out = append(out, res.Plural+"/"+o.GetName()+": nothing serves "+service)
					x.table.Rows = append(x.table.Rows, []string{res.Plural + "/" + o.GetName(), "nothing serves " + service, ""})
				}
			}
		}
	}
	return out
}

// webhookServices returns the services that a configuration calls, each once.
func webhookServices(o *unstructured.Unstructured) []string {
	var out []string
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, h := range hooks {
		m, ok := h.(map[string]any)
		if !ok {
			continue
		}
		ns, _, _ := unstructured.NestedString(m, "clientConfig", "service", "namespace")
		name, _, _ := unstructured.NestedString(m, "clientConfig", "service", "name")
		if s := ns + "/" + name; name != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

func nonNil(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}
