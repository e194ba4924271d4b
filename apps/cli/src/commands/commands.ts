import type { Command } from "commander";

/** Adds arguments, flags and the action to a command. The action reports a non-zero exit status through `setExitCode`. */
export type DefineCommand = (command: Command, setExitCode: (code: number) => void) => void | Promise<void>;

/** A command of `keelson` itself, as `--help` lists it before any of its code is loaded. */
export interface CommandEntry {
  readonly name: string;
  readonly description: string;
  /** Whether `--help` omits it. Default false. */
  readonly isInternal?: boolean;
  /** Imports the command's code. */
  load(): Promise<DefineCommand>;
}

/** The commands of `keelson` itself, in the order of `--help`. */
export const commandEntries: readonly CommandEntry[] = [
  {
    name: "up",
    description: "run everything on this machine: API server, controllers, node and operators",
    load: async () => (await import("./local/up.ts")).defineUpCommand,
  },
  {
    name: "down",
    description: "stop `keelson up`",
    load: async () => (await import("./local/down.ts")).defineDownCommand,
  },
  {
    name: "status",
    description: "show the components, the objects of each operator, and what needs attention",
    load: async () => (await import("./status.ts")).defineStatusCommand,
  },
  {
    name: "logs",
    description: "print the log of `keelson up`",
    load: async () => (await import("./local/logs.ts")).defineLogsCommand,
  },
  {
    name: "doctor",
    description: "check this machine for the programs and kernel features that Keelson uses",
    load: async () => (await import("./local/doctor.ts")).defineDoctorCommand,
  },
  {
    name: "bug-report",
    description: "write an archive with everything that a bug report needs, without credentials",
    load: async () => (await import("./bug-report.ts")).defineBugReportCommand,
  },
  {
    name: "operator",
    description: "run operators against a cluster, with leader election",
    load: async () => (await import("./cluster/operator.ts")).defineOperatorCommand,
  },
  {
    name: "node",
    description: "join this machine to a cluster as a node that runs Pods as programs",
    load: async () => (await import("./cluster/node.ts")).defineNodeCommand,
  },
  {
    name: "install",
    description: "install the operators in a cluster, or print the manifests",
    load: async () => (await import("./cluster/install.ts")).defineInstallCommand,
  },
  {
    name: "upgrade",
    description: "upgrade the operators in a cluster",
    load: async () => (await import("./cluster/install.ts")).defineUpgradeCommand,
  },
  {
    name: "uninstall",
    description: "remove the operators and all their objects from a cluster",
    load: async () => (await import("./cluster/uninstall.ts")).defineUninstallCommand,
  },
  {
    name: "verify",
    description: "check the operators in a cluster, and name the command that fixes a problem",
    load: async () => (await import("./cluster/verify.ts")).defineVerifyCommand,
  },
  {
    name: "port-forward",
    description: "forward local ports to a Pod or to a Pod of a Service",
    load: async () => (await import("./cluster/port-forward.ts")).definePortForwardCommand,
  },
  {
    name: "image",
    description: "manage the images of this machine's sandboxes and Pods",
    load: async () => (await import("./local/image.ts")).defineImageCommand,
  },
  {
    name: "storage",
    description: "verify, repair, back up, restore and compact the data of `keelson up`",
    load: async () => (await import("./local/storage.ts")).defineStorageCommand,
  },
  {
    name: "kubeconfig",
    description: "print the kubeconfig of `keelson up`, or its path",
    load: async () => (await import("./local/kubeconfig.ts")).defineKubeconfigCommand,
  },
  {
    name: "version",
    description: "print the version",
    load: async () => (await import("./version.ts")).defineVersionCommand,
  },
  {
    name: "completion",
    description: "print the completion script of a shell",
    load: async () => (await import("./completion.ts")).defineCompletionCommand,
  },
  {
    name: "complete",
    description: "print completions of a command line",
    isInternal: true,
    load: async () => (await import("./completion.ts")).defineCompleteCommand,
  },
  {
    name: "component",
    description: "run one process of `keelson up`",
    isInternal: true,
    load: async () => (await import("./local/component.ts")).defineComponentCommand,
  },
];
