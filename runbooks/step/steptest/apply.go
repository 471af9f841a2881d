package steptest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/runbooks/step"
)

// owner is a field manager and how it came to own a field. An apply and an
// update by the same manager are different owners, as on a real server.
type owner struct {
	manager string
	applied bool
}

// owners are the owners of each leaf by its path, such as
// .spec.containers[name=app].image. They stay out of the objects.
type owners map[string][]owner

// leaves returns the leaf values of a tree by path. Lists whose items have
// names are trees; other lists are leaves.
func leaves(v any) map[string]any {
	out := map[string]any{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, v := range v {
				walk(path+"."+k, v)
			}
			if len(v) == 0 {
				out[path] = v
			}
		case []any:
			if !named(v) {
				out[path] = v
				return
			}
			for _, item := range v {
				walk(path+"[name="+nameOf(item)+"]", item)
			}
		default:
			out[path] = v
		}
	}
	walk("", v)
	return out
}

// ownable returns the leaves of what a manager can own in an object.
func ownable(o *unstructured.Unstructured) map[string]any {
	ls := leaves(o.Object)
	maps.DeleteFunc(ls, func(path string, _ any) bool {
		switch path {
		case ".apiVersion", ".kind", ".metadata.name", ".metadata.namespace", ".metadata.uid", ".metadata.resourceVersion",
			".metadata.generation", ".metadata.creationTimestamp", ".metadata.deletionTimestamp", ".metadata.deletionGracePeriodSeconds":
			return true
		}
		return false
	})
	return ls
}

// updated returns the owners after a manager changed old into o without apply.
func (own owners) updated(manager string, old, o *unstructured.Unstructured) owners {
	next := owners{}
	before, after := ownable(old), ownable(o)
	for path, v := range after {
		next[path] = own[path]
		if was, ok := before[path]; !ok || !reflect.DeepEqual(was, v) {
			next[path] = []owner{{manager, false}}
		}
	}
	return next
}

// apply does a server-side apply.
func (c *Cluster) apply(d *def, manager string, ref step.Ref, w *step.ApplyWrite, dryRun bool) (*unstructured.Unstructured, error) {
	config, err := normal(w.Object)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := d.checkIdentity(ref, config); err != nil {
		return nil, err
	}
	me := owner{manager, true}
	k := key{ref.Namespace, ref.Name}
	s := c.store[d.resource][k]
	if s == nil && w.Subresource != "" {
		return nil, apierrors.NewNotFound(groupResource(ref.Resource), ref.Name)
	}
	if s == nil {
		return c.create(d, me, ref, config, dryRun)
	}
	if err := checkUID(ref, ref.UID, s.obj); err != nil {
		return nil, err
	}
	if w.Subresource != "" {
		return c.applyStatus(d, ref, s, config, w.Subresource, dryRun)
	}
	conf, live := ownable(config), ownable(s.obj)
	if err := s.owners.conflicts(me, ref, w.Force, conf, live); err != nil {
		return nil, err
	}
	o := s.obj.DeepCopy()
	merged, _ := mergePatch(o.Object, withoutNulls(config.Object), true).(map[string]any)
	o.Object = merged
	own := owners{}
	for path, holders := range s.owners {
		holders = slices.DeleteFunc(slices.Clone(holders), func(h owner) bool { return h == me })
		if _, wanted := conf[path]; !wanted && len(holders) == 0 && slices.Contains(s.owners[path], me) {
			removeLeaf(o.Object, path) // nobody asks for it any more
			continue
		}
		own[path] = holders
	}
	for path, v := range conf {
		if was, there := live[path]; there && reflect.DeepEqual(was, v) {
			own[path] = append(own[path], me)
			continue
		}
		own[path] = []owner{me}
	}
	return c.update(d, ref, s, o, own, "", dryRun)
}

// applyStatus applies the status and nothing else. Nobody owns a status here.
func (c *Cluster) applyStatus(d *def, ref step.Ref, s *stored, config *unstructured.Unstructured, sub string, dryRun bool) (*unstructured.Unstructured, error) {
	if sub != "status" || d.noStatus {
		return nil, apierrors.NewNotFound(groupResource(ref.Resource), ref.Name)
	}
	o := s.obj.DeepCopy()
	if status, ok := config.Object["status"]; ok {
		o.Object["status"] = mergePatch(o.Object["status"], status, true)
	}
	return c.update(d, ref, s, o, s.owners, sub, dryRun)
}

// create makes the object that an apply found missing.
func (c *Cluster) create(d *def, me owner, ref step.Ref, config *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	gr := groupResource(ref.Resource)
	if me.manager == Manager {
		if err := c.permit(permission("create", step.Ref{Resource: ref.Resource, Namespace: ref.Namespace}, "")); err != nil {
			return nil, err
		}
	}
	if ref.UID != "" {
		return nil, apierrors.NewConflict(gr, ref.Name, fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", ref.UID))
	}
	if d.namespaced {
		ns := c.store[namespaces][key{"", ref.Namespace}]
		if ns == nil {
			return nil, apierrors.NewNotFound(groupResource(namespaces), ref.Namespace)
		}
		if ns.obj.GetDeletionTimestamp() != nil {
			err := apierrors.NewForbidden(gr, ref.Name, fmt.Errorf(
				"unable to create new content in namespace %s because it is being terminated", ref.Namespace))
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
				Type: "NamespaceTerminating", Message: "namespace " + ref.Namespace + " is being terminated", Field: "metadata.namespace",
			})
			return nil, err
		}
	}
	o := config.DeepCopy()
	o.Object = withoutNulls(o.Object)
	for _, f := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", f)
	}
	if !d.noStatus {
		delete(o.Object, "status")
	}
	c.complete(o)
	if dryRun {
		return o, nil
	}
	own := owners{}
	for path := range ownable(o) {
		own[path] = []owner{me}
	}
	c.save(d, key{ref.Namespace, ref.Name}, &stored{o, own})
	answer := o.DeepCopy()
	c.settle()
	c.broadcast()
	return answer, nil
}

// checkIdentity refuses an object that is not the one the ref names.
func (d *def) checkIdentity(ref step.Ref, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	switch {
	case gvk.Group != d.resource.Group || gvk.Kind != d.kind || !slices.Contains(d.versions, gvk.Version):
		return apierrors.NewBadRequest(fmt.Sprintf("the object is a %s, which does not match %s", gvk, ref.Resource))
	case o.GetName() != ref.Name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), ref.Name))
	case o.GetNamespace() != "" && o.GetNamespace() != ref.Namespace:
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the request (%s)", o.GetNamespace(), ref.Namespace))
	}
	if ref.Namespace != "" {
		o.SetNamespace(ref.Namespace)
	}
	return nil
}

// conflicts returns the error for fields that others own with other values.
func (own owners) conflicts(me owner, ref step.Ref, force bool, conf, live map[string]any) error {
	if force {
		return nil
	}
	var causes []metav1.StatusCause
	for _, path := range slices.Sorted(maps.Keys(conf)) {
		if was, there := live[path]; !there || reflect.DeepEqual(was, conf[path]) {
			continue
		}
		for _, h := range own[path] {
			if h != me {
				causes = append(causes, metav1.StatusCause{
					Type: metav1.CauseTypeFieldManagerConflict, Message: fmt.Sprintf("conflict with %q", h.manager), Field: path,
				})
			}
		}
	}
	if len(causes) == 0 {
		return nil
	}
	var text []string
	for _, cause := range causes {
		text = append(text, cause.Message+": "+cause.Field)
	}
	err := apierrors.NewApplyConflict(causes, fmt.Sprintf("Apply failed with %d conflict(s): %s", len(causes), strings.Join(text, ", ")))
	err.ErrStatus.Details.Name, err.ErrStatus.Details.Kind = ref.Name, ref.Resource.Plural
	return err
}

// withoutNulls returns a tree without its null fields, which an apply ignores.
func withoutNulls(m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if child, ok := v.(map[string]any); ok {
			v = withoutNulls(child)
		}
		if v != nil {
			out[k] = v
		}
	}
	return out
}

// removeLeaf takes the leaf at an owner's path out of a tree.
func removeLeaf(tree any, path string) {
	parent, last, err := descend(tree, path)
	if err != nil {
		return // something above it went already
	}
	delete(parent, last)
}

var errNoPath = errors.New("no such path")

// descend finds the map that holds the last field of a path. Field names may
// hold dots, so each level takes the longest that fits.
func descend(v any, path string) (map[string]any, string, error) {
	if name, rest, ok := strings.Cut(strings.TrimPrefix(path, "[name="), "]"); strings.HasPrefix(path, "[name=") && ok {
		items, _ := v.([]any)
		for _, item := range items {
			if nameOf(item) == name {
				return descend(item, rest)
			}
		}
		return nil, "", errNoPath
	}
	m, ok := v.(map[string]any)
	if !ok || !strings.HasPrefix(path, ".") {
		return nil, "", errNoPath
	}
	path = path[1:]
	if _, ok := m[path]; ok {
		return m, path, nil
	}
	for k, child := range m {
		if rest, ok := strings.CutPrefix(path, k); ok && rest != "" && (rest[0] == '.' || rest[0] == '[') {
			if parent, last, err := descend(child, rest); err == nil {
				return parent, last, nil
			}
		}
	}
	return nil, "", errNoPath
}
