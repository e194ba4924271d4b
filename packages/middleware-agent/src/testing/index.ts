export type { ContractCase, ContractPod, EngineContractOptions, ParameterExample } from "./contract.ts";
export { engineContract } from "./engine-contract.ts";
