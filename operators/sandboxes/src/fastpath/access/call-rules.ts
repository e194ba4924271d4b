import type { DescMethod, DescService } from "@bufbuild/protobuf";
import {
  FastPathService,
  SandboxFiles,
  SandboxLifecycle,
  SandboxPorts,
  SandboxProcesses,
  SandboxStreams,
  SandboxUsage,
  SandboxVolumes,
} from "@keelson/sandbox/protocol";

/** Permission that a call requires, as in a rule of RBAC. */
export interface CallRule {
  readonly verb: "get" | "list" | "create" | "update" | "patch" | "delete";
  /** Default: `sandboxes`. */
  readonly resource?: "sandboxvolumes";
  readonly subresource?: "log" | "exec" | "files" | "portforward";
}

/** Rules by the name of the method. The compiler requires one for each method of the service. */
type ServiceRules<S extends DescService> = { readonly [Name in keyof S["method"]]: CallRule };

function rulesFor<S extends DescService>(service: S, rules: ServiceRules<S>): readonly [DescMethod, CallRule][] {
  return service.methods.map((method) => [method, rules[method.localName as keyof S["method"]]]);
}

const change: CallRule = { verb: "patch" };
const run: CallRule = { verb: "create", subresource: "exec" };
const observe: CallRule = { verb: "get", subresource: "exec" };
const readFiles: CallRule = { verb: "get", subresource: "files" };
const forward: CallRule = { verb: "create", subresource: "portforward" };
const writeFiles: CallRule = { verb: "update", subresource: "files" };

/**
 * Permission that each call requires in the namespace of its sandbox. Subresources that exist in the API only as names of permissions follow
 * those of Pods: `sandboxes/log`, `sandboxes/exec`, `sandboxes/portforward`, and `sandboxes/files`.
 */
export const callRules: ReadonlyMap<DescMethod, CallRule> = new Map([
  ...rulesFor(FastPathService, {
    createSandbox: { verb: "create" },
    deleteSandbox: { verb: "delete" },
    updateSandbox: change,
    listSandboxes: { verb: "list" },
    getSandbox: { verb: "get" },
  }),
  ...rulesFor(SandboxLifecycle, { pause: change, resume: change, restart: change, renew: change }),
  ...rulesFor(SandboxStreams, { logs: { verb: "get", subresource: "log" }, exec: run }),
  ...rulesFor(SandboxProcesses, {
    ...{ start: run, writeInput: run, signal: run, resize: run },
    ...{ list: observe, output: observe },
  }),
  ...rulesFor(SandboxFiles, {
    ...{ stat: readFiles, list: readFiles, read: readFiles, watch: readFiles },
    ...{ write: writeFiles, remove: writeFiles, makeDirectory: writeFiles },
  }),
  ...rulesFor(SandboxVolumes, {
    createVolume: { verb: "create", resource: "sandboxvolumes" },
    listVolumes: { verb: "list", resource: "sandboxvolumes" },
    resizeVolume: { verb: "patch", resource: "sandboxvolumes" },
    deleteVolume: { verb: "delete", resource: "sandboxvolumes" },
  }),
  ...rulesFor(SandboxUsage, { watchUsage: { verb: "list" } }),
  ...rulesFor(SandboxPorts, { connect: forward, createUrl: forward }),
]);
