import { type CommandDefinition, outputFlag } from "@keelson/operator";
import { namespaceFlag } from "../app-flags.ts";
import { showConnection } from "../connect.ts";
import { approvePlan, controlTasks, holdChanges } from "./control.ts";
import { showPlan } from "./plan.ts";
import { requestRebuild, requestRestart } from "./restart.ts";
import { showStatus } from "../status.ts";
import { requestSwitchover } from "./switchover.ts";
import { showTasks } from "./tasks.ts";
import { explain } from "../why.ts";
import { withErrors } from "../with-errors.ts";

/** `keelson app status | plan | tasks | cancel | retry | pause | resume | approve | why | connect | switchover | restart | rebuild`. */
export const changeCommands: readonly CommandDefinition[] = [
  {
    name: "status",
    description: "show the Pods of an App with their roles, versions and replication lag",
    args: ["NAME"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, showStatus),
  },
  {
    name: "plan",
    description: "show the tasks that a change to an App would execute, and what they restart",
    args: ["NAME"],
    flags: [
      namespaceFlag,
      outputFlag,
      { name: "file", value: "FILE", description: "manifest of the changed App; default: the stored spec" },
    ],
    run: (context) => withErrors(context, showPlan),
  },
  {
    name: "tasks",
    description: "show the tasks of an App's plan and their status",
    args: ["NAME"],
    flags: [
      namespaceFlag,
      outputFlag,
      { name: "watch", short: "w", description: "watch until the plan has finished; the exit code is its outcome" },
    ],
    run: (context) => withErrors(context, showTasks),
  },
  {
    name: "cancel",
    description: "cancel tasks of an App's plan; without ids, all unfinished tasks",
    args: ["NAME", "[IDS...]"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, (each) => controlTasks(each, "cancel")),
  },
  {
    name: "retry",
    description: "retry tasks of an App's plan; without ids, all failed, skipped and cancelled tasks",
    args: ["NAME", "[IDS...]"],
    flags: [namespaceFlag, outputFlag, { name: "reset-dependencies", description: "also retry the tasks that they depend on" }],
    run: (context) => withErrors(context, (each) => controlTasks(each, "retry")),
  },
  {
    name: "pause",
    description: "hold changes of an App: start no tasks, and stop running ones before their next disruption",
    args: ["NAME"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, (each) => holdChanges(each, true)),
  },
  {
    name: "resume",
    description: "resume changes of a paused App",
    args: ["NAME"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, (each) => holdChanges(each, false)),
  },
  {
    name: "approve",
    description: "approve the waiting plan of an App; with a plan id, only that plan",
    args: ["NAME", "[PLAN]"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, approvePlan),
  },
  {
    name: "why",
    description: "explain what an App, or a task of its plan, waits for, and how to continue",
    args: ["NAME", "[TASK]"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, explain),
  },
  {
    name: "connect",
    description: "show the addresses of an App and where to find its password",
    args: ["NAME"],
    flags: [namespaceFlag, outputFlag, { name: "show-password", description: "print the password" }],
    run: (context) => withErrors(context, showConnection),
  },
  {
    name: "switchover",
    description: "hand the primary role of an App to a replica without losing data, and wait for completion",
    args: ["NAME"],
    flags: [
      namespaceFlag,
      outputFlag,
      { name: "to", value: "POD", description: "Pod that becomes the primary; default: an in-sync replica" },
    ],
    run: (context) => withErrors(context, requestSwitchover),
  },
  {
    name: "restart",
    description: "restart the Pods of an App one by one, the primary last after a switchover, and wait for completion",
    args: ["NAME"],
    flags: [namespaceFlag, outputFlag, { name: "pod", value: "POD", description: "restart only this Pod" }],
    run: (context) => withErrors(context, requestRestart),
  },
  {
    name: "rebuild",
    description: "discard a replica's data, copy the primary's, and wait for completion",
    args: ["NAME", "POD"],
    flags: [namespaceFlag, outputFlag],
    run: (context) => withErrors(context, requestRebuild),
  },
];
