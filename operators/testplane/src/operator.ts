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
import type { KindSchemas } from "./manifests/validate-known-kinds.ts";
import { testplaneMonitoring } from "./monitoring/testplane-monitoring.ts";
import { builtProgram, type KeelsonProgram } from "./programs/keelson-program.ts";

/** A program of Keelson: in a cluster from its image, otherwise from this installation. */
function keelsonProgram(path: string): KeelsonProgram {
  const image = process.env.KEELSON_IMAGE;
  return { command: [process.execPath, builtProgram(path)], ...(image ? { image } : {}) };
}

/** Options of {@link createTestplane}. */
export interface TestplaneOptions {
  /**
   * Imports the schemas of built-in kinds, which `validate` checks the manifests in tests against. Called when the command runs. Default: the
   * fields of manifests are checked by the API server only.
   */
  readonly loadSchemas?: () => Promise<KindSchemas>;
}

/** Creates the testplane operator: tests of operators as Kubernetes objects. */
export function createTestplane({ loadSchemas }: TestplaneOptions = {}): Operator {
  return { ...testplane, commands: createCommands(loadSchemas) };
}

function createCommands(loadSchemas?: TestplaneOptions["loadSchemas"]): Operator["commands"] {
  return [
    createRunCommand(process.stdin),
    rerunCommand,
    createValidateCommand(process.stdin, loadSchemas),
    initCommand,
    schemaCommand,
    importCommand,
    listCommand,
    describeCommand,
    reportCommand,
  ];
}

/** The testplane operator with the default options. */
export const testplane: Operator = {
  name: "testplane",
  commandName: "test",
  description: "run integration and load tests of operators",
  resources: [IntegrationTest, LoadTest],
  rules: [
    { apiGroups: [group], resources: ["integrationtests", "loadtests"], verbs: ["get", "list", "watch", "patch", "delete"] },
    // Tests with a ServiceAccount have its permissions.
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
  commands: createCommands(),
};
