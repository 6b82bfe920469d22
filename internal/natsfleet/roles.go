package natsfleet

import (
	"fmt"
	"slices"
	"strings"

	"prodigy/internal/fleet"
)

// permissions are the subjects that somebody may publish on and subscribe to.
type permissions struct{ publish, subscribe []string }

// permissionsOf returns the least that a member of a fleet needs. All may answer what they are asked besides.
//
// A worker has no right to purge or delete. That keeps the client of the object store from removing things, but not a
// worker that means harm: to send objects it publishes on the subjects of the store, and there the header Nats-Rollup,
// which the store allows, replaces objects or removes all. So nobody believes an object whose digest was not told to
// them in another way, and what is missing is sent or made again.
func permissionsOf(role fleet.Role, name, id string) permissions {
	p := permissions{subscribe: []string{inboxOf(id) + ".>"}}
	locks, files := "KV_"+locksBucket, "OBJ_"+filesStore
	// Objects and buckets are read by consumers of one's own.
	reads := func(streams ...string) {
		for _, s := range streams {
			p.publish = append(p.publish, "$JS.API.STREAM.INFO."+s, "$JS.API.DIRECT.GET."+s+".>",
				"$JS.API.CONSUMER.CREATE."+s, "$JS.API.CONSUMER.CREATE."+s+".>",
				"$JS.API.CONSUMER.DELETE."+s+".>", "$JS.API.CONSUMER.INFO."+s+".>")
		}
	}
	switch role {
	case fleet.CoordinatorRole:
		for _, s := range []string{outStream, locks, files} {
			p.publish = append(p.publish, "$JS.API.STREAM.CREATE."+s, "$JS.API.STREAM.PURGE."+s)
		}
		reads(outStream, locks, files)
		p.publish = append(p.publish, "$JS.API.INFO", "$JS.API.CONSUMER.MSG.NEXT."+outStream+".*",
			"$JS.ACK."+outStream+".>", "$JS.FC.>",
			"$KV."+locksBucket+".>", "$O."+filesStore+".>", "prodigy.down.>",
			jobsSubject+">", "prodigy.ask.*.owner", nodesSubject, drainSubject)
		p.subscribe = append(p.subscribe, helloSubject, "prodigy.ask.>", "prodigy.live.>", "prodigy.up.>", nodesSubject)
	case fleet.WorkerRole:
		own := "prodigy.name.*" // without a name it may have any
		if name != "" {
			own = nameSubject(name)
		}
		reads(locks, files)
		p.publish = append(p.publish, "$JS.API.INFO", "$JS.API.STREAM.INFO."+outStream, "$JS.FC.>",
			"$O."+filesStore+".>", helloSubject, "prodigy.ask.*.owner",
			own, "prodigy.up."+id+".>", "prodigy.out."+id+".>", "prodigy.ask.*.call."+id, "prodigy.live.*."+id)
		p.subscribe = append(p.subscribe, "prodigy.down."+id+".>", jobsSubject+">", drainSubject, own, nodesSubject)
	case fleet.ObserverRole:
		p.publish = append(p.publish, nodesSubject)
	}
	slices.Sort(p.publish)
	slices.Sort(p.subscribe)
	return p
}

// userHead begins the entry of a member, which ends with userEnd.
func userHead(role fleet.Role, name string) string {
	return fmt.Sprintf("  # %s %s\n  {\n", role, name)
}

const userEnd = "\n  }\n"

// user returns the entry of a member in the configuration of nats-server.
func user(role fleet.Role, name, id string) string {
	p := permissionsOf(role, name, id)
	list := func(subjects []string) string {
		return "        \"" + strings.Join(subjects, "\"\n        \"") + "\"\n"
	}
	return userHead(role, name) + fmt.Sprintf(`    nkey: %s
    permissions: {
      publish: { allow: [
%s      ] }
      subscribe: { allow: [
%s      ] }
      allow_responses: { max: 1, expires: "1m" }
    }`, id, list(p.publish), list(p.subscribe)) + userEnd
}
