import type { Operator } from "@keelson/operator";
import { IntegrationTest } from "./api/integration-test.ts";
import { LoadTest } from "./api/load-test.ts";
import { group } from "./api/names.ts";
import { describeCommand } from "./commands/describe.ts";
import { importCommand } from "./commands/import.ts";
import { initCommand } from "./commands/init.ts";
import { listCommand, reportCommand } from "./commands/report.ts";
import { rerunCommand } from "./commands/rerun.ts";
import { createRunCommand } from "./commands/run.ts";
import { schemaCommand } from "./commands/schema.ts";
import { createValidateCommand } from "./commands/validate.ts";
import { createIntegrationTestController } from "./controllers/integration/integration-test.ts";
import { createLoadTestController } from "./controllers/load/load-test.ts";
import { testplaneMonitoring } from "./monitoring/testplane-monitoring.ts";
import { builtProgram, type KeelsonProgram } from "./programs/keelson-program.ts";

/** A program of Keelson: in a cluster from its image, otherwise from this installation. */
function keelsonProgram(path: string): KeelsonProgram {
  const image = process.env.KEELSON_IMAGE;
  return { command: [process.execPath, builtProgram(path)], ...(image ? { image } : {}) };
}

/** The testplane operator: tests of operators as Kubernetes objects. */
export const testplane: Operator = {
  name: "testplane",
  commandName: "test",
  description: "run integration and load tests of operators",
  resources: [IntegrationTest, LoadTest],
  rules: [
    { apiGroups: [group], resources: ["integrationtests", "loadtests"], verbs: ["get", "list", "watch", "patch", "delete"] },
    // Tests with a ServiceAccount have its rights.
    { apiGroups: ["authorization.k8s.io"], resources: ["subjectaccessreviews"], verbs: ["create"] },
    { apiGroups: [group], resources: ["integrationtests/status", "loadtests/status"], verbs: ["patch"] },
    // Required for blockOwnerDeletion if OwnerReferencesPermissionEnforcement is enabled.
    { apiGroups: [group], resources: ["integrationtests/finalizers", "loadtests/finalizers"], verbs: ["update"] },
    { apiGroups: ["apiextensions.k8s.io"], resources: ["customresourcedefinitions"], verbs: ["get", "list", "watch"] },
  ],
  // Tests act on whatever kinds their authors test.
  localRules: [{ apiGroups: ["*"], resources: ["*"], verbs: ["get", "list", "watch", "create", "patch", "delete"] }],
  controllers: () => [
    createIntegrationTestController(keelsonProgram("tools/tool-program")),
    createLoadTestController(keelsonProgram("generator/generator-program")),
  ],
  servers: [],
  monitoring: testplaneMonitoring,
  deployment: { toolImage: { variable: "KEELSON_IMAGE" } },
  commands: [
    createRunCommand(process.stdin),
    rerunCommand,
    createValidateCommand(process.stdin),
    initCommand,
    schemaCommand,
    importCommand,
    listCommand,
    describeCommand,
    reportCommand,
  ],
};
