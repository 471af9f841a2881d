package drill_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rutter/executor/drill"
	"rutter/executor/kube"
	"rutter/executor/kube/kubetest"
	"rutter/runbooks/step"
)

// define installs a version's custom resource definitions until the test ends.
func define(t *testing.T, c *kube.Cluster, version string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(definitions, version, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions of %s: %v", version, err)
	}
	var crds []*unstructured.Unstructured
	for _, f := range files {
		crds = append(crds, manifests(t, f)...)
	}
	restore(t, c)
	if err := drill.Install(t.Context(), c, crds); err != nil {
		t.Fatal(err)
	}
}

// load lays a recorded state and a healthy peering with turin on the cluster.
func load(t *testing.T, c *kube.Cluster, version string, s recordedState) {
	t.Helper()
	objs := manifests(t, filepath.Join(recorded, s.dir, s.cluster+".yaml"))
	objs = append(objs, turin(t, s)...)
	l := &loader{t: t, c: c, uids: map[string]types.UID{}, version: version}
	l.load(slices.DeleteFunc(objs, func(o *unstructured.Unstructured) bool {
		// Liqo 1.0 cannot clamp, and refuses the rule for it.
		return unwanted(o) || version == "v1.0.3" && o.GetName() == "gw-mss-clamping"
	}))
}

// manifests reads the objects of a file.
func manifests(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objs, err := drill.Manifests(text)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return objs
}

// turin is the healthy peering of the recorded cluster once more, with another
// cluster and with pods of its own in the same namespace.
func turin(t *testing.T, s recordedState) []*unstructured.Unstructured {
	t.Helper()
	peer := peers[s.cluster]
	text, err := os.ReadFile(filepath.Join(recorded, "healthy", s.cluster+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	other := strings.NewReplacer(peer, "turin", podPrefix, "web-turin-", "10.202.", "10.203.").Replace(string(text))
	objs, err := drill.Manifests([]byte(other))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objs, func(o *unstructured.Unstructured) bool {
		return !names(o, "turin") && (o.GetNamespace() != "demo" || !strings.HasPrefix(o.GetName(), "web-turin-"))
	})
}

// unwanted are objects that every cluster has, that would make nodes of this
// machine, or that would stop the loading itself.
func unwanted(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return true
	case "APIService":
		return o.GetName() != "v1beta1.metrics.liqo.io"
	case "Deployment", "DaemonSet", "Service":
		return true
	case "Pod":
		return o.GetNamespace() == "liqo"
	}
	return false
}

// loader applies recorded objects in the order of their owners, whose UIDs are
// new, and then makes happen what had happened to them.
type loader struct {
	t       *testing.T
	c       *kube.Cluster
	version string
	uids    map[string]types.UID
}

func (l *loader) load(objs []*unstructured.Unstructured) {
	l.t.Helper()
	for _, o := range objs {
		if o.GetKind() == "Namespace" {
			l.apply(o)
			l.account(o.GetName())
		}
	}
	waiting := slices.Clone(objs)
	for len(waiting) > 0 {
		var next []*unstructured.Unstructured
		for _, o := range waiting {
			switch {
			case o.GetKind() == "Namespace":
			case l.ownerAmong(o, waiting):
				next = append(next, o)
			default:
				l.apply(o)
			}
		}
		if len(next) == len(waiting) {
			l.t.Fatal("the recorded objects own each other")
		}
		waiting = next
	}
	for _, last := range []bool{false, true} {
		for _, o := range objs {
			if o.GetDeletionTimestamp() != nil && (o.GetKind() == "Namespace") == last {
				l.delete(o)
			}
		}
	}
}

// account makes the service account that pods in the namespace need; the
// controller that does it otherwise may be slower.
func (l *loader) account(namespace string) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"name": "default", "namespace": namespace}}}
	l.apply(o)
}

func ownerKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// ownerAmong reports whether an owner of o is still to be applied.
func (l *loader) ownerAmong(o *unstructured.Unstructured, waiting []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return slices.ContainsFunc(waiting, func(w *unstructured.Unstructured) bool {
			return w.GetKind() == ref.Kind && w.GetName() == ref.Name && (w.GetNamespace() == o.GetNamespace() || w.GetNamespace() == "")
		})
	})
}

// apply makes an object as it was recorded, without what the server counts.
func (l *loader) apply(recorded *unstructured.Unstructured) {
	l.t.Helper()
	o := recorded.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	l.adopt(o)
	status := o.Object["status"]
	delete(o.Object, "status")
	l.fit(o, status)
	if o.GetKind() == "Pod" {
		// They are computed from the class, and refused if given; the account
		// is the only one that is there.
		for _, field := range []string{"priority", "preemptionPolicy"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
		_ = unstructured.SetNestedField(o.Object, "default", "spec", "serviceAccountName")
		_ = unstructured.SetNestedField(o.Object, "default", "spec", "serviceAccount")
	}
	ref := kubetest.Ref(l.t, l.c, o)
	got, err := l.c.Do(l.t.Context(), step.Write{Ref: ref, Apply: &step.ApplyWrite{Object: o, Force: true}})
	if err != nil {
		l.t.Fatal(err)
	}
	l.uids[ownerKey(o.GetKind(), o.GetNamespace(), o.GetName())] = got.GetUID()
	if status != nil && !slices.Contains(withoutStatus, o.GetKind()) {
		l.status(ref, status)
	}
}

// withoutStatus are the kinds whose status is no subresource, or belongs to
// controllers that run here too.
var withoutStatus = []string{"Namespace", "APIService", "PublicKey", "InternalFabric", "GeneveTunnel", "Quota", "ShadowEndpointSlice", "VkOptionsTemplate"}

func (l *loader) status(ref step.Ref, status any) {
	l.t.Helper()
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		l.t.Fatal(err)
	}
	w := step.Write{Ref: ref, Patch: &step.PatchWrite{Type: types.MergePatchType, Body: body, Subresource: "status"}}
	if _, err := l.c.Do(l.t.Context(), w); err != nil {
		l.t.Fatal(err)
	}
}

// adopt gives owner references the UIDs that the owners have here. An owner
// that was not recorded is dropped, or the garbage collector would delete o.
func (l *loader) adopt(o *unstructured.Unstructured) {
	var refs []metav1.OwnerReference
	for _, ref := range o.GetOwnerReferences() {
		for _, namespace := range []string{o.GetNamespace(), ""} {
			if uid, ok := l.uids[ownerKey(ref.Kind, namespace, ref.Name)]; ok {
				ref.UID = uid
				refs = append(refs, ref)
				break
			}
		}
	}
	o.SetOwnerReferences(refs)
}

// fit takes out what the definitions of 1.0 do not know; the states are those
// of 1.2.
func (l *loader) fit(o *unstructured.Unstructured, status any) {
	if l.version != "v1.0.3" {
		return
	}
	fields, _ := status.(map[string]any)
	switch o.GetKind() {
	case "ForeignCluster":
		delete(fields, "observedGeneration")
	case "Configuration":
		delete(fields, "conditions")
	case "FirewallConfiguration":
		dropKey(o.Object["spec"], "counter")
	}
}

// dropKey removes a key from all maps in a tree.
func dropKey(tree any, key string) {
	switch tree := tree.(type) {
	case map[string]any:
		delete(tree, key)
		for _, v := range tree {
			dropKey(v, key)
		}
	case []any:
		for _, v := range tree {
			dropKey(v, key)
		}
	}
}

// delete begins the deletion that had begun.
func (l *loader) delete(o *unstructured.Unstructured) {
	l.t.Helper()
	_, err := l.c.Do(l.t.Context(), step.Write{Ref: kubetest.Ref(l.t, l.c, o), Delete: &step.DeleteWrite{}})
	if err != nil && !apierrors.IsNotFound(err) {
		l.t.Fatal(err)
	}
}
