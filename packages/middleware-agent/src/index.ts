export { type AgentOptions, runAgent } from "./run-agent.ts";
export { createAgentCommand } from "./agent-command.ts";
export { runAgentProgram, runAsProgram } from "./agent-program.ts";
export { AgentError, type AgentErrorCode } from "./agent-error.ts";
export type {
  CredentialEngine,
  Credentials,
  ProgramLogin,
  ProgramUser as UserCredentials,
} from "./credentials/credential-engine.ts";
export { type AgentPassword, CredentialStore, type CredentialStoreOptions } from "./credentials/credential-store.ts";
export { createScramVerifier, isScramVerifier, matchesScramVerifier } from "./credentials/scram.ts";
export { discardData } from "./program/discard-data.ts";
export type {
  Assignment,
  Engine,
  EngineRole,
  FailoverOrder,
  FencedEngine,
  MiddlewareEngine,
  Outcome,
  ReloadOutcome,
  StopOptions,
} from "./engine.ts";
export type { AgentView, EngineDefinition, EngineOptions, EngineService, PluginDefinition } from "./engine-definition.ts";
export { killProcessesIn, processesIn } from "./program/folder-processes.ts";
export { readJson, writeJson } from "./json-file.ts";
export { type ProgramParameters, readParameters } from "./program/parameters-file.ts";
export type { ProgramMetric, ProgramMetricSample } from "./metrics/program-metric.ts";
export type { LogEngine, LogFile, LogSource, ReadLogOptions, Recovery, RecoveryTarget } from "./log/log-engine.ts";
export { programEnvironment } from "./program/program-environment.ts";
export { isProgramError, ProgramError } from "./program/program-error.ts";
export { ServerProcess, type ServerProcessOptions } from "./program/server-process.ts";
export { type AgentIdentity, agentName } from "./tls/agent-identity.ts";
export { CertificateFolder } from "./tls/certificate-folder.ts";
export { certificateHash, certificateProblem, type Certificates } from "./tls/certificates.ts";
export { type ProgramTls, type TlsMode, tlsModeOf } from "./tls/tls-mode.ts";
export { TlsServer } from "./tls/tls-server.ts";
export type {
  LoadOptions,
  SnapshotContent,
  SnapshotEngine,
  SnapshotOutcome,
  SnapshotSummary,
} from "./snapshot/snapshot-engine.ts";
export type { UpgradeEngine } from "./upgrade/upgrade-engine.ts";
