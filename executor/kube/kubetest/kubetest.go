// Package kubetest lends practice clusters to tests.
//
// [Cluster] hands one out for the length of a test, and takes away what the
// test made when it is over; [Connect] does the same and returns a client. The
// clusters run already: make test starts them. A test never runs without.
package kubetest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"rutter/executor/kube"
	"rutter/runbooks/step"
)

// Env names the variable with the kubeconfig of the practice clusters, whose
// contexts are a to i.
const Env = "RUTTER_TEST_KUBECONFIG"

// wipeTime bounds the cleaning of a cluster.
const wipeTime = 90 * time.Second

// Cluster lends the practice cluster of that name to the test alone, waiting
// until other tests give it back, and returns its kubeconfig and context. A
// test that needs several takes them in alphabetical order, or two tests can
// wait for each other. When the test ends, everything made since the clusters
// started is removed. The test fails if there are no practice clusters.
func Cluster(t testing.TB, name string) (kubeconfigPath, kubeContext string) {
	t.Helper()
	path := os.Getenv(Env)
	if path == "" {
		t.Fatalf("%s is not set; run make test: it starts the practice clusters", Env)
	}
	unlock, err := lock(path + "." + name + ".lock")
	if err != nil {
		t.Fatalf("borrow practice cluster %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := unlock(); err != nil {
			t.Errorf("give back practice cluster %s: %v", name, err)
		}
	})
	c, err := kube.New(kube.Config{Kubeconfig: path, Context: name})
	if err != nil {
		t.Fatalf("borrow practice cluster %s: %v", name, err)
	}
	t.Cleanup(c.Close)
	first, err := baseline(t.Context(), c, path+"."+name+".snapshot")
	if err != nil {
		t.Fatalf("borrow practice cluster %s: %v", name, err)
	}
	// A test that crashed may have left something.
	wipe(t, c, first)
	t.Cleanup(func() { wipe(t, c, first) })
	return path, name
}

// Connect is [Cluster] with a client, which is closed in the end.
func Connect(t testing.TB, name string) *kube.Cluster {
	t.Helper()
	path, kubeContext := Cluster(t, name)
	c, err := kube.New(kube.Config{Kubeconfig: path, Context: kubeContext})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// baseline returns the cluster's objects as they were when it was first lent.
func baseline(ctx context.Context, c *kube.Cluster, path string) (*kube.Snapshot, error) {
	id, err := c.Get(ctx, step.Ref{Resource: step.Resource{Plural: "namespaces"}, Name: "kube-system"})
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var first kube.Snapshot
	if err == nil && json.Unmarshal(data, &first) == nil && first.Cluster == id.GetUID() {
		return &first, nil
	}
	now, err := c.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if data, err = json.Marshal(now); err != nil {
		return nil, err
	}
	return now, os.WriteFile(path, data, 0o600)
}

func wipe(t testing.TB, c *kube.Cluster, first *kube.Snapshot) {
	t.Helper()
	// The test's own context has ended by the time of its cleanup.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wipeTime)
	defer cancel()
	if err := c.RemoveSince(ctx, first); err != nil {
		t.Errorf("clean practice cluster %s: %v", c.Context(), err)
	}
}

// Apply applies the YAML documents one after the other, and with them also
// their status, where they have one and the API keeps it apart. After a custom
// resource definition it waits until that is established. It returns the
// objects as the server has them.
func Apply(t testing.TB, c *kube.Cluster, manifests string) []*unstructured.Unstructured {
	t.Helper()
	var objs []*unstructured.Unstructured
	for _, o := range Decode(t, manifests) {
		ref := Ref(t, c, o)
		got, err := c.Do(t.Context(), step.Write{Ref: ref, Apply: &step.ApplyWrite{Object: o, Force: true}})
		if err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			established(t, c, ref)
		}
		objs = append(objs, withStatus(t, c, ref, o, got))
	}
	return objs
}

// withStatus sets the status that a write to the object itself ignores.
func withStatus(t testing.TB, c *kube.Cluster, ref step.Ref, want, got *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	status, ok := want.Object["status"]
	if _, there := got.Object["status"]; !ok || there {
		return got
	}
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	got, err = c.Do(t.Context(), step.Write{Ref: ref, Patch: &step.PatchWrite{
		Type: "application/merge-patch+json", Body: body, Subresource: "status",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func established(t testing.TB, c *kube.Cluster, ref step.Ref) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := c.Follow(ctx, step.Query{Resource: ref.Resource, Name: ref.Name}, func(objs []*unstructured.Unstructured) (bool, error) {
		if len(objs) == 0 {
			return false, nil
		}
		conds, _, _ := unstructured.NestedSlice(objs[0].Object, "status", "conditions")
		for _, cond := range conds {
			if m, _ := cond.(map[string]any); m["type"] == "Established" && m["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Fatalf("wait for %s: %v", ref, err)
	}
}

// Decode reads YAML documents.
func Decode(t testing.TB, manifests string) []*unstructured.Unstructured {
	t.Helper()
	var objs []*unstructured.Unstructured
	dec := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := dec.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objs
		}
		if err != nil {
			t.Fatalf("decode manifest %d: %v", len(objs)+1, err)
		}
		if len(o.Object) > 0 {
			objs = append(objs, o)
		}
	}
}

// Ref returns the reference to an object, whose resource is guessed from its
// kind in the way that all common kinds are named.
func Ref(t testing.TB, c *kube.Cluster, o *unstructured.Unstructured) step.Ref {
	t.Helper()
	gvk := o.GroupVersionKind()
	plural := strings.ToLower(gvk.Kind)
	for _, guess := range []string{plural + "s", plural + "es", strings.TrimSuffix(plural, "y") + "ies", plural} {
		res := step.Resource{Plural: guess, Version: gvk.Version, Group: gvk.Group}
		served, err := c.Resolve(t.Context(), res)
		if errors.Is(err, step.ErrNotServed) || err == nil && served.Kind != gvk.Kind {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return step.Ref{Resource: res.Unversioned(), Namespace: o.GetNamespace(), Name: o.GetName()}
	}
	t.Fatalf("no resource is served for kind %s", gvk)
	return step.Ref{}
}
