package steptest

import "rutter/runbooks/step"

// crds is the resource that adds and takes away others.
var crds = step.Resource{Plural: "customresourcedefinitions", Group: "apiextensions.k8s.io"}

// namespaces is the resource whose deletion waits for what is inside.
var namespaces = step.Resource{Plural: "namespaces"}

// builtin returns what every cluster serves.
func builtin() []ResourceDef {
	const (
		namespaced = true
		cluster    = false
	)
	def := func(plural, group, kind string, scope bool) ResourceDef {
		return ResourceDef{
			Resource: step.Resource{Plural: plural, Version: "v1", Group: group}, Kind: kind, Namespaced: scope,
		}
	}
	hpa := def("horizontalpodautoscalers", "autoscaling", "HorizontalPodAutoscaler", namespaced)
	hpa.Resource.Version = "v2"
	return []ResourceDef{
		def("namespaces", "", "Namespace", cluster),
		def("nodes", "", "Node", cluster),
		def("persistentvolumes", "", "PersistentVolume", cluster),
		def("persistentvolumeclaims", "", "PersistentVolumeClaim", namespaced),
		def("pods", "", "Pod", namespaced),
		def("services", "", "Service", namespaced),
		def("endpoints", "", "Endpoints", namespaced),
		def("secrets", "", "Secret", namespaced),
		def("configmaps", "", "ConfigMap", namespaced),
		def("serviceaccounts", "", "ServiceAccount", namespaced),
		def("events", "", "Event", namespaced),
		def("deployments", "apps", "Deployment", namespaced),
		def("replicasets", "apps", "ReplicaSet", namespaced),
		def("daemonsets", "apps", "DaemonSet", namespaced),
		def("statefulsets", "apps", "StatefulSet", namespaced),
		def("jobs", "batch", "Job", namespaced),
		def("cronjobs", "batch", "CronJob", namespaced),
		def("roles", "rbac.authorization.k8s.io", "Role", namespaced),
		def("rolebindings", "rbac.authorization.k8s.io", "RoleBinding", namespaced),
		def("clusterroles", "rbac.authorization.k8s.io", "ClusterRole", cluster),
		def("clusterrolebindings", "rbac.authorization.k8s.io", "ClusterRoleBinding", cluster),
		def("customresourcedefinitions", "apiextensions.k8s.io", "CustomResourceDefinition", cluster),
		def("apiservices", "apiregistration.k8s.io", "APIService", cluster),
		def("validatingwebhookconfigurations", "admissionregistration.k8s.io", "ValidatingWebhookConfiguration", cluster),
		def("mutatingwebhookconfigurations", "admissionregistration.k8s.io", "MutatingWebhookConfiguration", cluster),
		def("endpointslices", "discovery.k8s.io", "EndpointSlice", namespaced),
		def("poddisruptionbudgets", "policy", "PodDisruptionBudget", namespaced),
		def("networkpolicies", "networking.k8s.io", "NetworkPolicy", namespaced),
		def("ingresses", "networking.k8s.io", "Ingress", namespaced),
		def("leases", "coordination.k8s.io", "Lease", namespaced),
		hpa,
	}
}
