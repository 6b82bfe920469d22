package natsfleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
)

// validFor is how long certificates are valid.
const validFor = 10 * 365 * 24 * time.Hour

// routePort is added to the port of a broker for that of the routes between brokers.
const routePort = 2000

// usersFile is the list of those whom a broker lets in. It begins with usersHead and usersBegin.
const (
	usersFile = "users.conf"
	usersHead = "# Who may use the broker, and for what. Made by prodigy fleet init; prodigy fleet add adds to it. " +
		"To lock somebody out, use prodigy fleet remove and reload\n" +
		"# the broker: kill -HUP, or nats-server --signal reload.\n"
	usersBegin = "users = [\n"
)

// nameLetters are those of the names of hosts and members.
const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// Init makes the configuration of brokers and the credentials of all roles.
func (Backend) Init(o fleet.InitOptions) ([]string, error) {
	hosts, err := brokersOf(o)
	if err != nil {
		return nil, err
	}
	ca, server, serverKey := certificates(hosts)
	sign, public := newKey(nkeys.CreateAccount)
	urls := check.Each(hosts, func(h broker) string { return "tls://" + hostPort(h.host, h.port) })
	base := fleet.Credentials{
		URL: strings.Join(urls, ","), CAPEM: ca, Sign: sign, Trust: []string{public},
		Names: public,
	}
	files := map[string]string{}
	var users strings.Builder
	users.WriteString(usersHead + usersBegin)
	workers := o.Workers
	if len(workers) == 0 {
		workers = []string{""}
	}
	members := []identity{{fleet.CoordinatorRole, ""}, {fleet.ObserverRole, ""}}
	for _, name := range workers {
		members = append(members, identity{fleet.WorkerRole, name})
	}
	for _, m := range members {
		if files[m.file()] != "" {
			return nil, fleet.Refusef("--worker %s is given twice", m.name)
		}
		text, entry, err := m.credentials(base)
		if err != nil {
			return nil, err
		}
		files[m.file()] = text
		users.WriteString(entry)
	}
	for _, h := range hosts {
		files[filepath.Join(h.dir, "nats.conf")] = h.config(hosts)
		files[filepath.Join(h.dir, usersFile)] = users.String() + "]\n"
		files[filepath.Join(h.dir, "ca.pem")] = ca
		files[filepath.Join(h.dir, "server.pem")] = server
		files[filepath.Join(h.dir, "server-key.pem")] = serverKey
	}
	return makeFiles(o.Dir, files)
}

// Add makes credentials for one more member.
func (Backend) Add(dir string, role fleet.Role, name string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, identity{fleet.CoordinatorRole, ""}.file()))
	if err != nil {
		return nil, fleet.Refusef("%s was not created by prodigy fleet init: %w", dir, err)
	}
	base, err := fleet.ParseCredentials(data)
	if err != nil {
		return nil, err
	}
	_, public, err := pairOf(base.Sign) // older fleets do not have it in names
	if err != nil {
		return nil, fmt.Errorf("the key for signing jobs: %w", err)
	}
	base.Trust = []string{public}
	m := identity{role, name}
	text, entry, err := m.credentials(base)
	if err != nil {
		return nil, err
	}
	lists, err := editUsers(dir, func(text string) (string, bool) {
		before, after, found := strings.Cut(text, usersBegin)
		return before + usersBegin + entry + after, found
	})
	if err != nil {
		return nil, err
	}
	made, err := makeFiles(dir, map[string]string{m.file(): text})
	if err != nil {
		return nil, err
	}
	changed, err := replaceFiles(lists)
	return append(made, changed...), err
}

// Remove takes a member out of the users of the brokers, and its credentials away.
func (Backend) Remove(dir string, role fleet.Role, name string) ([]string, error) {
	if name == "" {
		return nil, fleet.Refusef("a name is required")
	}
	found := false
	lists, err := editUsers(dir, func(text string) (string, bool) {
		before, entry, is := strings.Cut(text, userHead(role, name))
		_, after, ends := strings.Cut(entry, userEnd)
		found = found || is
		return before + after, ends || !is
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fleet.Refusef("%s %s not found in %s", role, name,
			strings.Join(slices.Sorted(maps.Keys(lists)), ", "))
	}
	done, err := replaceFiles(lists)
	if err != nil {
		return done, err
	}
	file := filepath.Join(dir, identity{role, name}.file())
	if err = os.Remove(file); err == nil {
		done = append(done, file)
	}
	return done, check.Unless(err, fs.ErrNotExist)
}

// editUsers returns what edit makes of the lists of users of the brokers in a directory of fleet init, by path. Edit
// reports false if it does not find where it is to add something.
func editUsers(dir string, edit func(text string) (string, bool)) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "broker*", usersFile))
	if err != nil || len(paths) == 0 {
		return nil, fleet.Refusef("broker*/%s not found in %s: was the directory created by prodigy fleet init?", usersFile, dir)
	}
	lists := make(map[string]string, len(paths))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var found bool
		if lists[path], found = edit(string(data)); !found {
			return nil, fleet.Refusef("%s was edited: its entries cannot be found, so none can be added or removed", path)
		}
	}
	return lists, nil
}

// broker is a host that a broker runs on.
type broker struct {
	host string
	port int
	dir  string
}

// brokersOf returns the brokers that files are made for. Each host is a name or an address, with a port if it is not
// that of the others. A directory is named after its host if there are several, and after such a port.
func brokersOf(o fleet.InitOptions) ([]broker, error) {
	if n := len(o.Hosts); n != 1 && n != 3 && n != 5 {
		return nil, fleet.Refusef("--host given %d times: use one broker, or three or five for a cluster", n)
	}
	var list []broker
	for _, text := range o.Hosts {
		b := broker{host: text, port: o.Port}
		if host, port, err := net.SplitHostPort(text); err == nil {
			if b.port, err = strconv.Atoi(port); err != nil || b.port < 1 || b.port > 65535 {
				return nil, fleet.Refusef("--host %s: the port must be between 1 and 65535", text)
			}
			b.host = host
		}
		if b.host == "" || net.ParseIP(b.host) == nil && strings.Trim(b.host, nameLetters) != "" {
			return nil, fleet.Refusef("--host %q is not a host name or address", text)
		}
		b.dir = "broker"
		if len(o.Hosts) > 1 {
			b.dir = "broker-" + strings.ReplaceAll(b.host, ":", "_")
			if b.port != o.Port {
				b.dir += "-" + strconv.Itoa(b.port)
			}
		}
		if slices.ContainsFunc(list, func(o broker) bool { return o.dir == b.dir }) {
			return nil, fleet.Refusef("--host %s is given twice", text)
		}
		list = append(list, b)
	}
	return list, nil
}

// hostPort returns the address of a port of a host.
func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// config returns the configuration of nats-server.
func (b broker) config(all []broker) string {
	text := fmt.Sprintf(`# A broker of a prodigy fleet, made by prodigy fleet init. Names of files are relative to this directory:
#   prodigy broker --dir THIS-DIRECTORY
#   cd THIS-DIRECTORY && nats-server --config nats.conf
server_name: "%s"
listen: "0.0.0.0:%d"
# http: "127.0.0.1:8222"  # numbers about the queue, for monitoring; whoever reaches this port can read them
jetstream {
  store_dir: "jetstream"
  sync_interval: always  # what is acknowledged is on disk; without it large outputs are faster, and after a power failure some items may run again
}
tls {
  cert_file: "server.pem"
  key_file: "server-key.pem"
  timeout: 5
}
authorization {
  include "users.conf"
}
`, hostPort(b.host, b.port), b.port)
	if len(all) == 1 {
		return text
	}
	var routes []string
	for _, h := range all {
		routes = append(routes, fmt.Sprintf("    \"nats-route://%s\"\n", hostPort(h.host, h.port+routePort)))
	}
	return text + fmt.Sprintf(`cluster {
  name: "prodigy"
  listen: "0.0.0.0:%d"
  routes: [
%s  ]
  tls {
    cert_file: "server.pem"
    key_file: "server-key.pem"
    ca_file: "ca.pem"
    verify: true
    timeout: 5
  }
}
`, b.port+routePort, strings.Join(routes, ""))
}

// identity is somebody who gets credentials.
type identity struct {
	role fleet.Role
	name string // empty: the only one of the role
}

// file returns the name of the credentials.
func (m identity) file() string {
	if m.name == "" {
		return string(m.role) + ".yml"
	}
	return string(m.role) + "-" + m.name + ".yml"
}

// credentials makes a key for a member, and returns the credentials and the entry in the configuration of the broker.
func (m identity) credentials(base fleet.Credentials) (text, entry string, err error) {
	if strings.Trim(m.name, nameLetters) != "" {
		return "", "", fleet.Refusef("invalid name %q: use letters, digits, and . - _", m.name)
	}
	seed, public := newKey(nkeys.CreateUser)
	c := base
	c.Role, c.Name, c.Seed = m.role, m.name, seed
	if m.role != fleet.CoordinatorRole {
		c.Sign = ""
	}
	if m.role == fleet.WorkerRole {
		signer, err := newSigner(base.Sign)
		if err != nil {
			return "", "", err
		}
		c.Names, c.NameSig = "", signer.name(public, m.name)
	} else {
		c.Trust = nil
	}
	text = "# Credentials for a prodigy fleet. Keep them secret.\n" + string(check.Must(yaml.Marshal(c)))
	return text, user(m.role, m.name, public), nil
}

// newKey returns a new pair of keys as text: the seed, which is secret and makes the pair, and the public key.
// nkeys.CreateUser makes one that proves to the broker who somebody is, nkeys.CreateAccount one that signs jobs.
func newKey(create func() (nkeys.KeyPair, error)) (seed, public string) {
	pair := check.Must(create())
	return string(check.Must(pair.Seed())), check.Must(pair.PublicKey())
}

// certificates makes an authority, and a certificate of all brokers that it signs, as PEM. The key of the authority is
// thrown away, so that nobody can make another certificate with it.
func certificates(hosts []broker) (ca, server, serverKey string) {
	caKey := check.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	now := time.Now()
	authority := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "prodigy fleet"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validFor),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := check.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	leaf := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "prodigy broker"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, // routes need both
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h.host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else if !slices.Contains(leaf.DNSNames, h.host) {
			leaf.DNSNames = append(leaf.DNSNames, h.host)
		}
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	signed := func(c *x509.Certificate, public any) string {
		return block("CERTIFICATE", check.Must(x509.CreateCertificate(rand.Reader, c, authority, public, caKey)))
	}
	return signed(authority, caKey.Public()), signed(leaf, key.Public()),
		block("PRIVATE KEY", check.Must(x509.MarshalPKCS8PrivateKey(key)))
}

// makeFiles writes files below dir with mode 0600, and returns their paths. It overwrites none: if one exists, it
// writes nothing.
func makeFiles(dir string, files map[string]string) ([]string, error) {
	texts := map[string]string{}
	for name, text := range check.ByKey(files) {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			return nil, fleet.Refusef("%s already exists; nothing was overwritten", path)
		}
		texts[path] = text
	}
	return replaceFiles(texts)
}

// replaceFiles replaces files, each at once, by texts, and returns their paths.
func replaceFiles(texts map[string]string) (done []string, err error) {
	for path, text := range check.ByKey(texts) {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = jobs.WriteFile(path, []byte(text))
		}
		if err != nil {
			return done, err
		}
		done = append(done, path)
	}
	return done, nil
}
