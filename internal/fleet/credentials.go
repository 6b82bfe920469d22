package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

// Roles returns the roles that fleet init makes credentials for.
func Roles() []Role { return []Role{CoordinatorRole, WorkerRole, ObserverRole} }

// Credentials are a file that has all that somebody needs to take part in a fleet. They are secret.
type Credentials struct {
	Role Role   `yaml:"role"`
	Name string `yaml:"name,omitempty"`
	URL  string `yaml:"url"`
	// certificate that signed that of the broker, as PEM, if not one that the system knows
	CA   string `yaml:"ca,omitempty"`
	Seed string `yaml:"seed,omitempty"` // of the NKEY that the broker knows, if any
	Sign string `yaml:"sign,omitempty"` // of a coordinator: the seed of the key that it signs jobs with
	// of a worker: the public keys of the coordinators whose jobs it runs, if not those of all
	Trust []string `yaml:"trust,omitempty"`

	// of a coordinator or observer: the public key that has signed the names of workers, who are believed without one
	Names   string `yaml:"names,omitempty"`
	NameSig string `yaml:"name_sig,omitempty"` // of a worker: that signature of its name, and of its key
}

// ParseCredentials reads a credentials file strictly.
func ParseCredentials(data []byte) (Credentials, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	var c Credentials
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		why := strings.NewReplacer("yaml: ", "", "unmarshal errors:\n  ", "", "\n ", ";",
			" in type fleet.Credentials", "", " into fleet.Credentials", "").Replace(err.Error())
		return c, fmt.Errorf("not a prodigy credentials file: %s", why)
	}
	for _, r := range append(Roles(), OwnerRole) {
		if c.Role == r {
			if c.URL == "" {
				return c, errors.New("not a prodigy credentials file: url is required")
			}
			return c, nil
		}
	}
	return c, fmt.Errorf("invalid role %q in the credentials file: must be coordinator, worker or observer", c.Role)
}

// OwnerFile returns the path of the credentials of the owner of a broker on this machine, below a home. They are
// found by the address of the broker.
func OwnerFile(home, address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), DefaultPort
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	return filepath.Join(home, "brokers", strings.ReplaceAll(host, ":", "_")+"-"+port+".yml")
}

// May returns why the holder of these credentials cannot do what a role can.
func (a Address) May(role Role) error {
	if a.Role == "" || a.Role == OwnerRole || a.Role == role || a.Role == CoordinatorRole && role == ObserverRole {
		return nil
	}
	return Refusef("these credentials have the role %s, but the role %s is required", a.Role, role)
}
