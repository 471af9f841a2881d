package steptest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rutter/runbooks/step"
)

const (
	foregroundFinalizer = "foregroundDeletion"
	orphanFinalizer     = "orphan"
	cleanupFinalizer    = "customresourcecleanup.apiextensions.k8s.io"
)

// delete marks an object for deletion and lets the controllers do the rest.
func (c *Cluster) delete(d *def, ref step.Ref, w *step.DeleteWrite, dryRun bool) (*unstructured.Unstructured, error) {
	s, err := c.existing(d, ref)
	if err != nil {
		return nil, err
	}
	if dryRun {
		return s.obj.DeepCopy(), nil
	}
	answer := s.obj.DeepCopy()
	c.terminate(d, key{ref.Namespace, ref.Name}, w.Propagation)
	if after := c.store[d.resource][key{ref.Namespace, ref.Name}]; after != nil {
		answer = after.obj.DeepCopy()
	}
	c.settle()
	c.broadcast()
	return answer, nil
}

// terminate sets what a deletion sets. It changes nothing the second time.
func (c *Cluster) terminate(d *def, k key, propagation string) bool {
	s := c.store[d.resource][k]
	if s == nil || s.obj.GetDeletionTimestamp() != nil {
		return false
	}
	o := s.obj.DeepCopy()
	now := epoch
	o.SetDeletionTimestamp(&now)
	o.SetGeneration(o.GetGeneration() + 1)
	finalizers := o.GetFinalizers()
	switch propagation {
	case "Foreground":
		finalizers = append(finalizers, foregroundFinalizer)
	case "Orphan":
		finalizers = append(finalizers, orphanFinalizer)
	}
	switch d.resource {
	case crds:
		finalizers = append(finalizers, cleanupFinalizer)
	case namespaces:
		setPhase(o, "Terminating")
	}
	if len(finalizers) > 0 {
		o.SetFinalizers(finalizers)
	}
	c.save(d, k, &stored{o, s.owners})
	return true
}

// settle does what the control plane does after a change, until nothing moves:
// garbage collection, emptying of namespaces and definitions, and the removal
// of what no finalizer holds any more.
func (c *Cluster) settle() {
	for changed := true; changed; {
		changed = false
		for _, d := range slices.Clone(c.defs) {
			for _, k := range c.keys(d) {
				changed = c.advance(d, k) || changed
			}
		}
	}
}

// advance moves one object on and reports whether anything changed.
func (c *Cluster) advance(d *def, k key) bool {
	s := c.store[d.resource][k]
	if s == nil {
		return false
	}
	if s.obj.GetDeletionTimestamp() == nil {
		return c.collect(d, k, s.obj)
	}
	changed := c.propagate(d, k, s.obj)
	switch d.resource {
	case namespaces:
		changed = c.empty(d, k) || changed
	case crds:
		changed = c.cleanUp(d, k) || changed
	}
	s = c.store[d.resource][k]
	held, _, _ := unstructured.NestedStringSlice(s.obj.Object, "spec", "finalizers")
	if d.resource != namespaces {
		held = nil
	}
	if len(s.obj.GetFinalizers()) == 0 && len(held) == 0 {
		c.drop(d, k)
		return true
	}
	return changed
}

// collect deletes an object whose owners are all gone.
func (c *Cluster) collect(d *def, k key, o *unstructured.Unstructured) bool {
	refs := o.GetOwnerReferences()
	for _, r := range refs {
		if c.byUID(r.UID) != nil {
			return false
		}
	}
	return len(refs) > 0 && c.terminate(d, k, "Background")
}

func (c *Cluster) byUID(uid types.UID) *unstructured.Unstructured {
	for _, objs := range c.store {
		for _, s := range objs {
			if s.obj.GetUID() == uid {
				return s.obj
			}
		}
	}
	return nil
}

// propagate does the work behind the finalizers of the garbage collector.
func (c *Cluster) propagate(d *def, k key, o *unstructured.Unstructured) bool {
	changed := false
	switch {
	case slices.Contains(o.GetFinalizers(), foregroundFinalizer):
		left := false
		c.eachDependent(o.GetUID(), func(d *def, k key, _ *stored) {
			left = true
			changed = c.terminate(d, k, "Foreground") || changed
		})
		if !left {
			return c.dropFinalizer(d, k, foregroundFinalizer)
		}
	case slices.Contains(o.GetFinalizers(), orphanFinalizer):
		c.eachDependent(o.GetUID(), func(d *def, k key, s *stored) {
			dep := s.obj.DeepCopy()
			refs := dep.GetOwnerReferences()
			for i := len(refs) - 1; i >= 0; i-- {
				if refs[i].UID == o.GetUID() {
					refs = slices.Delete(refs, i, i+1)
				}
			}
			if dep.SetOwnerReferences(refs); len(refs) == 0 {
				unstructured.RemoveNestedField(dep.Object, "metadata", "ownerReferences")
			}
			c.save(d, k, &stored{dep, s.owners})
		})
		return c.dropFinalizer(d, k, orphanFinalizer)
	}
	return changed
}

func (c *Cluster) eachDependent(uid types.UID, fn func(*def, key, *stored)) {
	for _, d := range slices.Clone(c.defs) {
		for _, k := range c.keys(d) {
			s := c.store[d.resource][k]
			for _, r := range s.obj.GetOwnerReferences() {
				if r.UID == uid {
					fn(d, k, s)
					break
				}
			}
		}
	}
}

func (c *Cluster) dropFinalizer(d *def, k key, finalizer string) bool {
	s := c.store[d.resource][k]
	o := s.obj.DeepCopy()
	left := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == finalizer })
	if o.SetFinalizers(left); len(left) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "finalizers")
	}
	c.save(d, k, &stored{o, s.owners})
	return true
}

// empty deletes what is in a namespace that goes, and says what still stands.
func (c *Cluster) empty(d *def, k key) bool {
	changed := false
	counts, held := map[string]int{}, map[string]int{}
	for _, inside := range slices.Clone(c.defs) {
		if !inside.namespaced {
			continue
		}
		for _, ik := range c.keys(inside) {
			if ik.namespace != k.name {
				continue
			}
			changed = c.terminate(inside, ik, "Background") || changed
			o := c.store[inside.resource][ik].obj
			if len(o.GetFinalizers()) > 0 {
				counts[inside.resource.String()]++
			}
			for _, f := range o.GetFinalizers() {
				held[f]++
			}
		}
	}
	if changed {
		return true // look again once they had the chance to go
	}
	s := c.store[d.resource][k]
	o := s.obj.DeepCopy()
	setPhase(o, "Terminating")
	setConditions(o, []condition{
		remaining("NamespaceContentRemaining", "SomeResourcesRemain", "ContentRemoved", "Some resources are remaining: ",
			"All content successfully removed", counts, "%s has %d resource instances"),
		remaining("NamespaceFinalizersRemaining", "SomeFinalizersRemain", "ContentHasNoFinalizers",
			"Some content in the namespace has finalizers remaining: ", "All content-preserving finalizers finished", held, "%s in %d resource instances"),
	})
	if len(counts) == 0 {
		unstructured.RemoveNestedField(o.Object, "spec", "finalizers")
	}
	if unchanged(s.obj, o) {
		return false
	}
	c.save(d, k, &stored{o, s.owners})
	return true
}

type condition struct{ kind, status, reason, message string }

func remaining(kind, someReason, noneReason, prefix, none string, counts map[string]int, format string) condition {
	if len(counts) == 0 {
		return condition{kind, "False", noneReason, none}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf(format, name, counts[name]))
	}
	return condition{kind, "True", someReason, prefix + strings.Join(parts, ", ")}
}

func setConditions(o *unstructured.Unstructured, conds []condition) {
	var list []any
	for _, c := range conds {
		list = append(list, map[string]any{
			"type": c.kind, "status": c.status, "reason": c.reason, "message": c.message,
			"lastTransitionTime": epoch.UTC().Format("2006-01-02T15:04:05Z"),
		})
	}
	_ = unstructured.SetNestedSlice(o.Object, list, "status", "conditions")
}

func setPhase(o *unstructured.Unstructured, phase string) {
	_ = unstructured.SetNestedField(o.Object, phase, "status", "phase")
}

func unchanged(a, b *unstructured.Unstructured) bool {
	return fmt.Sprint(a.Object) == fmt.Sprint(b.Object)
}

// cleanUp deletes the instances of a definition that goes.
func (c *Cluster) cleanUp(d *def, k key) bool {
	o := c.store[d.resource][k].obj
	if !slices.Contains(o.GetFinalizers(), cleanupFinalizer) {
		return false
	}
	changed := false
	res := crdDef(o).Resource.Unversioned()
	if inst := c.defOf(res); inst != nil {
		for _, ik := range c.keys(inst) {
			changed = c.terminate(inst, ik, "Background") || changed
		}
	}
	if len(c.store[res]) == 0 {
		return c.dropFinalizer(d, k, cleanupFinalizer)
	}
	return changed
}

// establish serves what a definition defines.
func (c *Cluster) establish(crd *unstructured.Unstructured) {
	rd := crdDef(crd)
	if rd.Kind == "" || rd.Resource.Plural == "" {
		return
	}
	c.serve(rd)
	setConditions(crd, []condition{
		{"NamesAccepted", "True", "NoConflicts", "no conflicts found"},
		{"Established", "True", "InitialNamesAccepted", "the initial names have been accepted"},
	})
}

func crdDef(crd *unstructured.Unstructured) ResourceDef {
	field := func(path ...string) string {
		s, _, _ := unstructured.NestedString(crd.Object, path...)
		return s
	}
	rd := ResourceDef{
		Resource:   step.Resource{Plural: field("spec", "names", "plural"), Group: field("spec", "group")},
		Kind:       field("spec", "names", "kind"),
		Namespaced: field("spec", "scope") == "Namespaced",
		NoStatus:   true,
	}
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range list {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if served, _ := version["served"].(bool); !served {
			continue
		}
		if _, found, _ := unstructured.NestedMap(version, "subresources", "status"); found {
			rd.NoStatus = false
		}
		if rd.Resource.Version == "" {
			rd.Resource.Version = name
			continue
		}
		rd.Versions = append(rd.Versions, name)
	}
	rd.Resource.Version = cmp.Or(rd.Resource.Version, "v1")
	return rd
}
