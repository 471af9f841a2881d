package practice

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Users that the certificates make. Both may do anything.
const (
	adminUser        = "practice-admin"
	controlPlaneUser = "system:practice-control-plane"
	adminGroup       = "system:masters"
)

// Files of a cluster's directory, by the names that its programs are given.
const (
	caCert      = "ca.crt"
	serverCert  = "server.crt"
	serverKey   = "server.key"
	saKey       = "sa.key"
	saPub       = "sa.pub"
	controlConf = "controllers.kubeconfig"
)

// certLife is much longer than practice clusters live.
const certLife = 365 * 24 * time.Hour

// authority signs one cluster's certificates. Its key is never written: a
// cluster gets its certificates once.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
	now  time.Time
}

// keyPair is a certificate and its key, both PEM.
type keyPair struct{ cert, key []byte }

func newAuthority(cluster string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key, now: now}
	template, err := a.template("practice cluster " + cluster)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.pem = encode("CERTIFICATE", der)
	return a, nil
}

func (a *authority) template(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    a.now.Add(-time.Hour), // clocks are set back
		NotAfter:     a.now.Add(certLife),
	}, nil
}

// client makes the credentials of a user of the admin group.
func (a *authority) client(user string) (keyPair, error) {
	template, err := a.template(user)
	if err != nil {
		return keyPair{}, err
	}
	template.Subject.Organization = []string{adminGroup}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

// server makes the API server's certificate.
func (a *authority) server() (keyPair, error) {
	template, err := a.template("kube-apiserver")
	if err != nil {
		return keyPair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceIP)}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	return a.sign(template)
}

func (a *authority) sign(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: encode("CERTIFICATE", der), key: encode("EC PRIVATE KEY", private)}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// credentials is what reaches a cluster.
type credentials struct {
	ca    []byte
	admin keyPair
}

// writeCerts makes all that a cluster's programs need to trust each other and
// returns the user's credentials, which only the kubeconfig will hold.
func writeCerts(dir, cluster, server string, now time.Time) (credentials, error) {
	fail := func(err error) (credentials, error) {
		return credentials{}, fmt.Errorf("make the certificates of %s: %w", cluster, err)
	}
	ca, err := newAuthority(cluster, now)
	if err != nil {
		return fail(err)
	}
	serving, err := ca.server()
	if err != nil {
		return fail(err)
	}
	control, err := ca.client(controlPlaneUser)
	if err != nil {
		return fail(err)
	}
	admin, err := ca.client(adminUser)
	if err != nil {
		return fail(err)
	}
	private, public, err := serviceAccountKeys()
	if err != nil {
		return fail(err)
	}
	conf, err := kubeconfig([]access{{name: cluster, server: server, ca: ca.pem, user: control}})
	if err != nil {
		return fail(err)
	}
	for name, data := range map[string][]byte{
		caCert: ca.pem, serverCert: serving.cert, serverKey: serving.key,
		saKey: private, saPub: public, controlConf: conf,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return fail(err)
		}
	}
	return credentials{ca: ca.pem, admin: admin}, nil
}

// serviceAccountKeys makes the pair that signs and verifies tokens.
func serviceAccountKeys() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	priv, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, err
	}
	return encode("EC PRIVATE KEY", priv), encode("PUBLIC KEY", pub), nil
}
