package steptest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"rutter/runbooks/step"
)

// Put stores objects as they are, or replaces them. Missing UIDs, creation
// times and such are made up; finalizers and deletion timestamps stand. The
// namespace need not exist. An object of a kind that is not served is an error.
func (c *Cluster) Put(objs ...*unstructured.Unstructured) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range objs {
		o, err := normal(o)
		if err != nil {
			return err
		}
		d := c.defOfKind(o.GroupVersionKind().Group, o.GetKind())
		if d == nil {
			return fmt.Errorf("put %s: kind %s is not served", o.GetName(), o.GroupVersionKind())
		}
		k := key{o.GetNamespace(), o.GetName()}
		if d.namespaced && k.namespace == "" {
			return fmt.Errorf("put %s/%s: no namespace", d.resource, o.GetName())
		}
		var own owners
		if old := c.store[d.resource][k]; old != nil {
			own = old.owners
			if o.GetUID() == "" {
				o.SetUID(old.obj.GetUID())
			}
		}
		c.complete(o)
		c.save(d, k, &stored{o, own})
	}
	c.settle()
	c.broadcast()
	return nil
}

// Edit changes an object in place, as its controller would, status included.
// It reports whether the object was there.
func (c *Cluster) Edit(ref step.Ref, change func(o *unstructured.Unstructured)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, s := c.find(ref)
	if s == nil {
		return false
	}
	o := s.obj.DeepCopy()
	change(o)
	o, err := normal(o)
	if err != nil {
		return false
	}
	if !sameSpec(s.obj, o) {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	c.save(d, key{ref.Namespace, ref.Name}, &stored{o, s.owners})
	c.settle()
	c.broadcast()
	return true
}

// Remove takes an object away at once, whatever its finalizers.
func (c *Cluster) Remove(ref step.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, s := c.find(ref); s != nil {
		c.drop(d, key{ref.Namespace, ref.Name})
		c.settle()
		c.broadcast()
	}
}

// Object returns a copy of an object as it is now, or nil.
func (c *Cluster) Object(ref step.Ref) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, s := c.find(ref); s != nil {
		return s.obj.DeepCopy()
	}
	return nil
}

// Objects returns copies of all objects of a resource, by namespace and name.
func (c *Cluster) Objects(res step.Resource) []*unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.defOf(res)
	if d == nil {
		return nil
	}
	var objs []*unstructured.Unstructured
	for _, k := range c.keys(d) {
		objs = append(objs, c.store[d.resource][k].obj.DeepCopy())
	}
	return objs
}

// normal returns a copy of an object with numbers as a decoder makes them.
func normal(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("put %s: %w", o.GetName(), err)
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &out.Object); err != nil {
		return nil, fmt.Errorf("put %s: %w", o.GetName(), err)
	}
	return out, nil
}
