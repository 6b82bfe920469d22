package natsfleet

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"prodigy/internal/fleet"
)

// The subjects of the fleet. What a worker sends has its id in the subject, which is the public key of its credentials if it has some: so the broker can
// hold each worker to its own. Its instance begins with the id.

func upSubject(instance, key string) string { return "prodigy.up." + fleet.IDOf(instance) + "." + key }

func outSubject(instance, key, token string) string {
	return "prodigy.out." + fleet.IDOf(instance) + "." + key + "." + token
}

func callSubject(instance, key string) string {
	return "prodigy.ask." + key + ".call." + fleet.IDOf(instance)
}

func liveSubject(instance, key string) string {
	return "prodigy.live." + key + "." + fleet.IDOf(instance)
}

func nameSubject(name string) string { return "prodigy.name." + hex.EncodeToString([]byte(name)) }
func ownerSubject(key string) string { return "prodigy.ask." + key + ".owner" }
func downSubject(instance string) string {
	return "prodigy.down." + fleet.IDOf(instance) + "." + instance
}

// nodesSubject is where all who know workers are asked for them.
const nodesSubject = "prodigy.nodes"

// mostInstance is how many bytes an instance may have. Those that brokerConn.instance makes have at most 83.
const mostInstance = 128

// validInstance reports whether a text has the form of an instance: an id, a hyphen and the name of a process, in letters and digits as newInstance and
// nkeys write them. No other text comes into a subject or into the file of members.
func validInstance(text string) bool {
	id, process, _ := strings.Cut(text, "-")
	return len(text) <= mostInstance && isCapital(id) && isCapital(process)
}

// isCapital reports whether a text is one or more capital letters and digits.
func isCapital(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') })
}

// sentBy reports whether a message with this subject can be of an instance: its id is the word at that position, from 0.
func sentBy(instance, subject string, position int) bool {
	words := strings.Split(subject, ".")
	return validInstance(instance) && position < len(words) && fleet.IDOf(instance) == words[position]
}

// follows reports whether an instance may say that it comes after another one, whose commands it has ended: those with credentials only of the same.
func follows(instance, other string) bool {
	if !validInstance(other) {
		return false
	}
	a, b := fleet.IDOf(instance), fleet.IDOf(other)
	return a == b || !nkeys.IsValidPublicUserKey(a) && !nkeys.IsValidPublicUserKey(b)
}

// inboxOf is the prefix of the subjects that answers to somebody go to. Nobody else may read them.
func inboxOf(id string) string { return "_INBOX_" + id }

// permissions are the subjects that somebody may publish on and subscribe to.
type permissions struct{ publish, subscribe []string }

// permissionsOf returns the least that a member of a fleet needs. All may answer what they are asked besides.
//
// A worker has no right to purge or delete. That keeps the client of the object store from removing things, but not a worker that means harm: to send objects it
// publishes on the subjects of the store, and there the header Nats-Rollup, which the store allows, replaces objects or removes all. So nobody believes
// an object whose digest was not told to them in another way, and what is missing is sent or made again.
func permissionsOf(role fleet.Role, name, id string) permissions {
	p := permissions{subscribe: []string{inboxOf(id) + ".>"}}
	jobs, locks, files := "KV_"+jobsBucket, "KV_"+locksBucket, "OBJ_"+filesStore
	// Objects and buckets are read by consumers of one's own.
	reads := func(streams ...string) {
		for _, s := range streams {
			p.publish = append(p.publish, "$JS.API.STREAM.INFO."+s, "$JS.API.DIRECT.GET."+s+".>", "$JS.API.CONSUMER.CREATE."+s, "$JS.API.CONSUMER.CREATE."+s+".>",
				"$JS.API.CONSUMER.DELETE."+s+".>", "$JS.API.CONSUMER.INFO."+s+".>")
		}
	}
	switch role {
	case fleet.CoordinatorRole:
		for _, s := range []string{outStream, jobs, locks, files} {
			p.publish = append(p.publish, "$JS.API.STREAM.CREATE."+s, "$JS.API.STREAM.PURGE."+s)
		}
		reads(outStream, jobs, locks, files)
		p.publish = append(p.publish, "$JS.API.INFO", "$JS.API.CONSUMER.MSG.NEXT."+outStream+".*", "$JS.ACK."+outStream+".>", "$JS.FC.>",
			"$KV."+jobsBucket+".>", "$KV."+locksBucket+".>", "$O."+filesStore+".>", "prodigy.down.>", "prodigy.ask.*.owner", nodesSubject, "prodigy.drain")
		p.subscribe = append(p.subscribe, "prodigy.ask.>", "prodigy.live.>", "prodigy.up.>", nodesSubject)
	case fleet.WorkerRole:
		own := "prodigy.name.*" // without a name it may have any
		if name != "" {
			own = nameSubject(name)
		}
		reads(jobs, files)
		p.publish = append(p.publish, "$JS.API.INFO", "$JS.API.STREAM.INFO."+outStream, "$JS.FC.>", "$O."+filesStore+".>", "prodigy.ask.*.owner",
			own, "prodigy.up."+id+".>", "prodigy.out."+id+".>", "prodigy.ask.*.call."+id, "prodigy.live.*."+id)
		p.subscribe = append(p.subscribe, "prodigy.down."+id+".>", "prodigy.drain", own, nodesSubject)
	case fleet.ObserverRole:
		p.publish = append(p.publish, nodesSubject)
	}
	slices.Sort(p.publish)
	slices.Sort(p.subscribe)
	return p
}

// userHead begins the entry of a member, before its role and its name.
const userHead = "  # "

// user returns the entry of a member in the configuration of nats-server.
func user(role fleet.Role, name, id string) string {
	p := permissionsOf(role, name, id)
	list := func(subjects []string) string {
		return "        \"" + strings.Join(subjects, "\"\n        \"") + "\"\n"
	}
	return fmt.Sprintf(userHead+`%s %s
  {
    nkey: %s
    permissions: {
      publish: { allow: [
%s      ] }
      subscribe: { allow: [
%s      ] }
      allow_responses: { max: 1, expires: "1m" }
    }
  }
`, role, name, id, list(p.publish), list(p.subscribe))
}
