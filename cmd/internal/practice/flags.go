package practice

import "strconv"

const (
	auditPolicyName = "audit-policy.yaml"
	etcdSocket      = "etcd.sock"
)

// auditPolicy records every request once, when it has been answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// apiServerArgs are the flags of kube-apiserver. Its working directory is the
// cluster's, so files go by their names.
func apiServerArgs(opts Options, port int) []string {
	args := []string{
		"--etcd-servers=unix://" + etcdSocket,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + serverCert,
		"--tls-private-key-file=" + serverKey,
		"--client-ca-file=" + caCert,
		"--service-cluster-ip-range=" + serviceRange,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + saKey,
		"--service-account-key-file=" + saPub,
		"--authorization-mode=RBAC",
		"--allow-privileged",
		// No endpoints of the service "kubernetes": a loopback address
		// would be refused there.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		// The taint is taken off by a controller that is not here.
		"--disable-admission-plugins=TaintNodesByCondition",
		// Less memory and work in a cluster of one user.
		"--enable-priority-and-fairness=false",
		"--profiling=false",
		"--etcd-count-metric-poll-period=0",
		"--etcd-db-metric-poll-interval=0",
	}
	if opts.AuditLog {
		// Blocking is the default: an answered request is on record.
		args = append(args, "--audit-policy-file="+auditPolicyName, "--audit-log-path=audit.log")
	}
	return append(args, opts.APIServerArgs...)
}

func etcdArgs() []string {
	socket := "unix://" + etcdSocket
	return []string{
		"--name=practice",
		"--data-dir=etcd",
		"--listen-client-urls=" + socket,
		"--listen-peer-urls=" + socket + ".peer",
		// Nobody connects to the advertised addresses.
		"--advertise-client-urls=http://127.0.0.1:0",
		"--initial-advertise-peer-urls=http://127.0.0.1:0",
		"--initial-cluster=practice=http://127.0.0.1:0",
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

func controllerArgs() []string {
	return []string{
		"--kubeconfig=" + controlConf,
		"--leader-elect=false",
		"--secure-port=0",
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + saKey,
		"--root-ca-file=" + caCert,
	}
}

func schedulerArgs() []string {
	return []string{"--kubeconfig=" + controlConf, "--leader-elect=false", "--secure-port=0"}
}
