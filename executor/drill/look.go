package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"rutter/executor"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// look answers the functions of a drill's conditions from a cluster, for the
// time of one evaluation.
type look struct {
	ctx   context.Context
	arena Arena
}

// call is get(resource, [namespace,] name), which fails if there is no such
// object, or list(resource[, selector]), which is empty if the resource is not
// served.
func (l look) call(fn string, args []any) (any, error) {
	text := make([]string, len(args))
	for i, a := range args {
		text[i] = fmt.Sprint(a)
	}
	res, err := step.ParseResource(text[0])
	if err != nil {
		return nil, err
	}
	if fn == "get" {
		ref := step.Ref{Resource: res, Name: text[len(text)-1]}
		if len(text) == 3 {
			ref.Namespace = text[1]
		}
		o, err := l.arena.Get(l.ctx, ref)
		if err != nil {
			return nil, err
		}
		return o.Object, nil
	}
	q := step.Query{Resource: res}
	if len(text) == 2 {
		q.Selector = text[1]
	}
	objs, err := l.arena.List(l.ctx, q)
	if errors.Is(err, step.ErrNotServed) {
		return []any{}, nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]any, len(objs))
	for i, o := range objs {
		out[i] = o.Object
	}
	return out, nil
}

// install applies the custom resources of a role and waits until they are
// served.
func (s *session) install(ctx context.Context, role string) error {
	crds := s.cfg.CRDs
	if crds == nil {
		for _, set := range s.drill.CRDs[role] {
			more, err := definitions(s.cfg.Catalogue, s.drill, set)
			if err != nil {
				return err
			}
			crds = append(crds, more...)
		}
	}
	if len(crds) == 0 {
		return nil
	}
	s.cfg.say(fmt.Sprintf("installing %d custom resources on %s", len(crds), role))
	return Install(ctx, s.cfg.Arenas[role], crds)
}

// Definitions reads the custom resource definitions of all sets that a drill
// names, over all its roles.
func Definitions(catalogue fs.FS, d *runbook.Drill) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, sets := range d.CRDs {
		for _, set := range sets {
			crds, err := definitions(catalogue, d, set)
			if err != nil {
				return nil, err
			}
			all = append(all, crds...)
		}
	}
	return all, nil
}

// definitions reads a set from the nearest folder above the drill.
func definitions(catalogue fs.FS, d *runbook.Drill, set string) ([]*unstructured.Unstructured, error) {
	for _, name := range d.CRDFile(set) {
		text, err := fs.ReadFile(catalogue, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return Manifests(text)
	}
	return nil, fmt.Errorf("no file %s.crd.yaml in a folder crds above the drill", set)
}

// Manifests reads the objects of a YAML file of several documents.
func Manifests(text []byte) ([]*unstructured.Unstructured, error) {
	dec := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var out []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		if err := dec.Decode(&o.Object); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}

// establishTimeout bounds the wait for custom resources to be served.
const establishTimeout = 30 * time.Second

// Install applies custom resource definitions and waits until all are served.
func Install(ctx context.Context, cluster step.Cluster, crds []*unstructured.Unstructured) error {
	res := step.Resource{Plural: "customresourcedefinitions", Group: "apiextensions.k8s.io"}
	want := map[string]bool{}
	for _, crd := range crds {
		w := step.Write{Ref: step.Ref{Resource: res, Name: crd.GetName()}, Apply: &step.ApplyWrite{Object: crd, Force: true}}
		if _, err := cluster.Do(ctx, w); err != nil {
			return fmt.Errorf("install %s: %w", crd.GetName(), err)
		}
		want[crd.GetName()] = true
	}
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	return cluster.Follow(ctx, step.Query{Resource: res}, func(objs []*unstructured.Unstructured) (bool, error) {
		established := 0
		for _, o := range objs {
			if want[o.GetName()] && condition(o, "Established") == "True" {
				established++
			}
		}
		return established == len(want), nil
	})
}

// condition returns the status of a condition, "" if it is not there.
func condition(o *unstructured.Unstructured, kind string) string {
	conds, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conds {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			return fmt.Sprint(m["status"])
		}
	}
	return ""
}

// None is a journal that keeps nothing, for drills that need no record.
type None struct{}

var _ executor.Journal = None{}

// StepStart keeps nothing.
func (None) StepStart(*runbook.Step) error { return nil }

// StepEnd keeps nothing.
func (None) StepEnd(*executor.StepReport, map[string]any) error { return nil }

// Approval keeps nothing.
func (None) Approval(string, string, bool, string) error { return nil }

// Intent keeps nothing.
func (None) Intent(string, string, step.Write, *unstructured.Unstructured) (int, error) {
	return 0, nil
}

// Outcome keeps nothing.
func (None) Outcome(int, *unstructured.Unstructured, error) error { return nil }

// End keeps nothing.
func (None) End(*executor.Report) error { return nil }
