package step

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Patch returns the verb that changes fields of objects.
func Patch() *Kind {
	return &Kind{
		Name: "patch",
		Doc: "Patches the named object, or every object that matches. " +
			"With a JSON patch, a `test` operation guards against a value that changed in the meantime.",
		Example: `- id: cordon
  title: Keep new pods away
  patch: {resource: nodes, name: worker, patch: {spec: {unschedulable: true}}}
`,
		Result: "`changed` and `unchanged`: lists of names",
		New:    func() Action { return new(patch) },
	}
}

type patch struct {
	Target
	Type        string `yaml:"type" enum:"merge|json|strategic" doc:"How the patch is written; merge if not given."`
	Patch       any    `yaml:"patch,required" doc:"The patch: keys and values, or a list of operations for json."`
	Subresource string `yaml:"subresource" doc:"The part to patch, such as status."`
	Optional    bool   `yaml:"optional" doc:"A named object that is missing is left out instead of an error."`
}

func (p *patch) Effect() Effect { return Changes }

func (p *patch) Check() []Problem {
	ps := p.check()
	_, list := p.Patch.([]any)
	_, object := p.Patch.(map[string]any)
	text, _ := p.Patch.(string)
	switch {
	case HasMark(text): // an expression, judged again when it has a value
	case p.kind() == "json" && !list:
		ps = append(ps, Problem{"patch", "a JSON patch is a list of operations", "write - {op: replace, path: /spec/replicas, value: 1}"})
	case p.kind() != "json" && !object:
		ps = append(ps, Problem{"patch", "a " + p.kind() + " patch is keys and values", "write spec: {replicas: 1}"})
	}
	if p.Name == "" && p.Selector == "" && p.FieldSelector == "" {
		ps = append(ps, Problem{"", "this would patch all of them", "add name, selector or fieldSelector"})
	}
	return ps
}

func (p *patch) kind() string {
	if p.Type == "" {
		return "merge"
	}
	return p.Type
}

func (p *patch) patchType() types.PatchType {
	return map[string]types.PatchType{"merge": types.MergePatchType, "json": types.JSONPatchType, "strategic": types.StrategicMergePatchType}[p.kind()]
}

func (p *patch) Permissions() []Permission {
	// By hand each object is read before it is patched, whatever selected it;
	// and only a list can tell that there is none.
	verbs := []string{"get", "patch"}
	if p.Name == "" || p.Optional {
		verbs = []string{"get", "list", "patch"}
	}
	ps := p.permissions(verbs...)
	if p.Subresource != "" {
		for i := range ps {
			if ps[i].Verb == "patch" {
				ps[i].Subresource = p.Subresource
			}
		}
	}
	return ps
}

func (p *patch) Kubectl() []Line {
	body, err := p.body()
	if err != nil {
		return []Line{{Note: "the patch cannot be written down: " + err.Error()}}
	}
	flags := []string{"--type=" + p.kind(), "-p", string(body)}
	if p.Subresource != "" {
		flags = append(flags, "--subresource="+p.Subresource)
	}
	if p.Name != "" && !p.Optional {
		return p.lines("patch", flags...)
	}
	return p.perObject(rows{}, "patch", flags...)
}

// body is the patch as it is sent and as the page shows it: readable, so
// without the escapes that JSON needs inside of HTML only.
func (p *patch) body() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p.Patch); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func (p *patch) write(f Found) (Write, error) {
	body, err := p.body()
	if err != nil {
		return Write{}, err
	}
	return Write{Ref: f.Ref, Before: f.Object, Patch: &PatchWrite{Type: p.patchType(), Body: body, Subresource: p.Subresource}}, nil
}

// targets finds what to patch.
func (p *patch) targets(ctx context.Context, r Reader) ([]Found, error) {
	if err := refuse(p); err != nil {
		return nil, fmt.Errorf("patch %s: %w", p.what(), err)
	}
	found, err := p.find(ctx, r)
	if err == nil && p.Name != "" && len(found) == 0 && !p.Optional {
		err = errors.New("there is no such object")
	}
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", p.what(), err)
	}
	return found, nil
}

func (p *patch) Preview(ctx context.Context, r Reader) (*Preview, error) {
	found, err := p.targets(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &Preview{}
	for _, f := range found {
		w, err := p.write(f)
		if err != nil {
			return nil, err
		}
		after, err := r.DryRun(ctx, w)
		if p.passed(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("patch %s: %w", f.Ref, p.explain(err))
		}
		if !sameContent(f.Object, after) {
			out.Changes = append(out.Changes, Change{Op: OpUpdate, Object: f.Ref, Before: f.Object, After: after})
		}
	}
	out.Idle = len(out.Changes) == 0
	out.Said = fmt.Sprintf("would change %d", len(out.Changes))
	if out.Idle {
		out.Said = "no change"
	}
	return out, nil
}

func (p *patch) Run(ctx context.Context, c Cluster, h Host) (*Result, error) {
	found, err := p.targets(ctx, c)
	if err != nil {
		return nil, err
	}
	// A failed one is in neither list, nor is one that went in the meantime.
	changed, same := make([]bool, len(found)), make([]bool, len(found))
	err = each(ctx, found, func(ctx context.Context, i int, f Found) error {
		w, err := p.write(f)
		if err != nil {
			return err
		}
		after, err := c.Do(ctx, w)
		if p.passed(err) {
			return nil
		}
		if err != nil {
			return p.explain(err)
		}
		changed[i] = after == nil || after.GetResourceVersion() != f.Object.GetResourceVersion()
		same[i] = !changed[i]
		return nil
	})
	var did, not []Found
	for i, f := range found {
		switch {
		case changed[i]:
			did = append(did, f)
		case same[i]:
			not = append(not, f)
		}
	}
	res := &Result{Value: map[string]any{"changed": refNames(did), "unchanged": refNames(not)}, Said: "no change"}
	if len(did) > 0 {
		res.Said = fmt.Sprintf("%d changed", len(did))
	}
	if err != nil {
		return res, fmt.Errorf("patch %s: %w", p.what(), err)
	}
	return res, nil
}

// passed reports whether an object that a selector found went before it was
// patched: then it does not match any more.
func (p *patch) passed(err error) bool {
	return apierrors.IsNotFound(err) && (p.Name == "" || p.Optional)
}

// explain adds what the server leaves out: it does not say which operation of
// a JSON patch it could not do.
func (p *patch) explain(err error) error {
	var status apierrors.APIStatus
	if p.kind() == "json" && apierrors.IsInvalid(err) && errors.As(err, &status) &&
		(status.Status().Details == nil || len(status.Status().Details.Causes) == 0) {
		return fmt.Errorf("an operation does not fit the object as it is, such as a test of a value that has changed: %w", err)
	}
	return webhookHint(err, "it is asked before an object of this kind changes")
}
