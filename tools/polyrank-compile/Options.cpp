// The command line of polyrank-compile.

#include "tools/polyrank-compile/Options.h"

#include "tools/Help.h"

std::variant<polyrank::driver::Options, int>
polyrank::driver::parseOptions(int argc, char **argv) {
  Options options;
  std::string mode = "train";
  CLI::App app{
      "Compiles an exported model into a plan for the ranks of a mesh.\n"
      "Today ranks are processes on the CPUs of one machine, and floats are "
      "float32; low precision, GPUs and several machines come later.\n"
      "Exit status: 0 done, 1 the input is wrong (nothing is written).",
      "polyrank-compile"};
  useHelpFormatter(app);
  app.add_option("MODEL", options.model,
                 "The exported model: ONNX, what torch.export.save writes "
                 "(.pt2) or TorchScript (.pt). Floats of "
                 "any width are computed "
                 "and saved in float32, integers narrower than 32 bits in "
                 "int32")
      ->required()
      ->type_name("FILE");
  app.add_flag("--describe", options.describe,
               "Say what the model holds (inputs, parameters, ops, FLOPs, what "
               "is not supported) and print the command that compiles it; "
               "write nothing");
  app.add_option("-o,--output", options.output, "Where to write the plan")
      ->type_name("PLAN");
  app.add_option("--mesh", options.mesh,
                 "The devices, as named axes: data=2,tensor=2. An axis called "
                 "data splits the batch. Without a mesh: one device")
      ->type_name("AXES");
  app.add_option("--input", options.inputs,
                 "Type and shape of an input, where the export leaves dims "
                 "open: ids=int64[8,128]. The batch is one microbatch over all "
                 "data ranks")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("SPEC");
  app.add_option("--dim", options.dims,
                 "NAME=SIZE: the size of a dim that the export left open under "
                 "this name, in all inputs: batch=8")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("SPEC");
  app.add_option("--bind", options.binds,
                 "NAME=VALUE: the value that an input always has, a number, "
                 "true, false or an array (FILE.npy), instead of one with each "
                 "sample. It is a constant then, and decides control flow that "
                 "depends on it. Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("SPEC");
  app.add_flag("--abstract-weights", options.abstractWeights,
               "Compile a file without its weights (no external data, or "
               "weights left as inputs), to see layouts, memory and "
               "communication. Running it needs --init");
  app.add_option("--shard", options.shards,
                 "PATTERN=DIMS: how parameters, inputs or a module's output "
                 "(out(SCOPE)) are laid out. DIMS has one entry per dim: - not "
                 "split, ? as the compiler likes, axis or a+b split. Example: "
                 "'*.c_fc.weight=[-,tensor]'")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("SPEC");
  app.add_option("--shard-file", options.shardFile,
                 "A file with one PATTERN=DIMS a line (# comments)")
      ->type_name("FILE");
  app.add_option("--batch-axes", options.batchAxes,
                 "The axes of the mesh that split the batch of inputs that no "
                 "--shard names: A+B; default: replica and data, where the "
                 "mesh has them")
      ->type_name("AXES");
  app.add_option("--pipe-axis", options.pipeAxis,
                 "The axis of the mesh along which the model is cut into "
                 "stages; default: an axis called pipe")
      ->type_name("AXIS");
  app.add_option("--stages", options.stages,
                 "How many stages the model is cut into: auto (default), or "
                 "the size of the pipe axis times --chunks. Where it is cut "
                 "is what takes the slowest stage the least time; "
                 "docs/cutting.md")
      ->type_name("auto|N");
  app.add_option("--stage", options.stagePatterns,
                 "PATTERN=K: the modules or ops of that name are on stage K, "
                 "and what is left is cut around them: "
                 "'transformer.h.[0-5].*=0'. Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("SPEC");
  app.add_option("--chunks", options.chunks,
                 "Stages of each rank of the pipe axis: the model is cut into "
                 "as many times more. Default: 2 with --schedule interleaved "
                 "and zero-bubble-v, else 1")
      ->check(CLI::Range(int64_t(1), int64_t(4096)))
      ->type_name("V");
  app.add_option("--schedule", options.schedule,
                 "In which order ranks run their stages: gpipe, 1f1b "
                 "(default), interleaved (default with --chunks), zero-bubble, "
                 "zero-bubble-v or file:PATH; docs/schedules.md")
      ->type_name("SCHEDULE");
  app.add_option("--mode", mode, "train (default) or forward")
      ->check(oneOf({"train", "forward"}))
      ->type_name("MODE");
  app.add_option("--loss", options.loss,
                 "cross_entropy(OUTPUT,LABELS[,KEY=VALUE..]) with axis=K, "
                 "ignore_index=N, label_smoothing=S, weight=0.2:1:3 or "
                 "weight=FILE.npy; mse(OUTPUT,TARGET), and so l1, smooth_l1, "
                 "huber and binary_cross_entropy_with_logits; output(OUTPUT); "
                 "or a sum of such terms with weights: "
                 "cross_entropy(a,ya)+0.5*mse(b,yb)")
      ->type_name("LOSS");
  app.add_option("--metric", options.metrics,
                 "What is logged beside the loss, without a gradient: "
                 "accuracy(OUTPUT,LABELS[,top=K]), perplexity(OUTPUT,LABELS), "
                 "or any loss. Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("METRIC");
  app.add_option("--optimizer", options.optimizer,
                 "sgd(lr,momentum,dampening,weight_decay,nesterov), adam(lr,"
                 "betas,eps,weight_decay,amsgrad) or adamw(..), adagrad, "
                 "rmsprop, adafactor, lamb, lion, muon (docs/optimizers.md), "
                 "as PyTorch writes them: adamw(lr=1e-3,betas=(0.9,0.95)); "
                 "decay=GLOB[:GLOB] selects the parameters that decay")
      ->capture_default_str()
      ->type_name("OPT");
  app.add_option("--lr-schedule", options.lrSchedule,
                 "How the learning rate depends on the step, with a warm-up: " +
                     scheduleNames() +
                     ", as in 'cosine(warmup=100,total=1000,min=1e-5)'; "
                     "docs/learning-rates.md has their options")
      ->type_name("SCHEDULE");
  app.add_option("--group", options.groups,
                 "PATTERN: KEY=VALUE, ..: other options of the optimizer for "
                 "the parameters with matching names (PyTorch's parameter "
                 "groups): 'head.*: lr=x0.1, weight_decay=0'; lr=x0.1 is "
                 "relative to the optimizer's lr. Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("GROUP");
  auto *clipNorm =
      app.add_option("--clip-norm", options.clipNorm,
                     "Scale all gradients down to this norm, where theirs "
                     "together is larger (torch.nn.utils.clip_grad_norm_); the "
                     "log has it as grad_norm")
          ->check(positive())
          ->type_name("X");
  app.add_option("--clip-norm-type", options.clipNormType,
                 "2, or inf: the largest absolute value")
      ->capture_default_str()
      ->needs(clipNorm)
      ->check(CLI::IsMember({"2", "inf"}))
      ->type_name("TYPE");
  app.add_option("--clip-value", options.clipValue,
                 "Limit each element of a gradient to [-X, X] "
                 "(torch.nn.utils.clip_grad_value_)")
      ->excludes(clipNorm)
      ->check(positive())
      ->type_name("X");
  app.add_option("--ema", options.ema,
                 "Keep moving means of the trained parameters with this decay, "
                 "such as 0.999, for polyrank-run --save-ema "
                 "(torch.optim.swa_utils.get_ema_multi_avg_fn)")
      ->check(positive())
      ->type_name("DECAY");
  app.add_option("--microbatches", options.microbatches,
                 "Microbatches whose gradients one step adds up")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->type_name("M");
  bool train = false, eval = false;
  auto *trainFlag = app.add_flag(
      "--train", train,
      "The layers of a TorchScript model are in training mode (model.train()), "
      "whichever they were saved in");
  app.add_flag("--eval", eval, "They are in evaluation mode, though it trains")
      ->excludes(trainFlag);
  app.add_option("--batch-norm", options.batchNorm,
                 "Statistics of batch normalization: batch (of the global "
                 "batch), local=G (of G samples each) or frozen (the stored "
                 "ones)")
      ->type_name("MODE");
  app.add_option("--dropout", options.dropout,
                 "The rate of every dropout, or off; otherwise as the model "
                 "says (--mode forward drops nothing)")
      ->type_name("P|off");
  app.add_option("--freeze", options.freeze,
                 "A pattern over parameters that are not trained: no gradient, "
                 "no state, saved as stored. Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATTERN");
  app.add_option("--train-only", options.trainOnly,
                 "A pattern over the parameters that are trained; all others "
                 "are frozen. Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATTERN");
  app.add_option("--detach", options.detach,
                 "A pattern over modules or values of the file, through which "
                 "no gradient passes: of a module, what leaves it. For "
                 "no_grad() and detach() that an export does not show. "
                 "Repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("PATTERN");
  app.add_option("--params", options.params,
                 "The state_dict of the exported model (safetensors): what an "
                 "ONNX file holds of its tensors, or computed from them, is "
                 "these parameters again, under their names")
      ->type_name("FILE");
  app.add_flag("--no-tie", options.noTie,
               "Keep copies that the exporter made of a tied matrix apart: "
               "without this they are one parameter again");
  app.add_option(
         "--bucket-mb", options.bucketMegabytes,
         "Reductions of gradients and gathers of parameters are merged "
         "into buckets of up to this many MiB, fractions allowed; 0 "
         "keeps each apart. For some kinds alone: "
         "all-gather=50,reduce-scatter=25,all-reduce=25; first=1 is the "
         "first bucket of gradients, which is small so that its "
         "reduction starts early")
      ->capture_default_str()
      ->type_name("MB");
  app.add_option(
         "--recompute", options.recompute,
         "What the backward computes again instead of keeping it: full "
         "(all but what enters a repeated block), selective (what takes "
         "few FLOPs for each byte), PATTERN[,PATTERN] (all but what "
         "enters these modules), or none (default)")
      ->type_name("WHAT");
  app.add_flag("--recompute-gathers", options.recomputeGathers,
               "With --recompute, communicate again too, instead of keeping "
               "what was received")
      ->needs("--recompute");
  app.add_option("--zero", options.zero,
                 "ZeRO stage: 1 splits each parameter's update and optimizer "
                 "state over the ranks that have the same parameter, 2 also "
                 "the sum of its gradients over microbatches, 3 the parameter "
                 "too; 0 keeps them whole on each")
      ->capture_default_str()
      ->check(CLI::Range(0, 3))
      ->type_name("STAGE");
  app.add_option(
         "--zero-axis", options.zeroAxes,
         "Split updates over these axes of the mesh; without this, over "
         "those along which ranks add up their gradients")
      ->type_name("A[+B]");
  app.add_option("--zero-threshold", options.zeroThreshold,
                 "A parameter of which a rank has fewer elements is updated "
                 "whole: another collective would take longer")
      ->capture_default_str()
      ->check(positive())
      ->type_name("N");
  app.add_option("--zero-accumulate", options.zeroAccumulate,
                 "With --zero 2 or 3 and several microbatches: 'parts' reduces "
                 "the gradients of each microbatch, and a rank adds up its "
                 "part; 'full' adds up whole gradients and reduces them once")
      ->capture_default_str()
      ->check(CLI::IsMember({"parts", "full"}))
      ->type_name("SUM");
  app.add_option("--zero-gather", options.zeroGather,
                 "With --zero 3, when parameters are gathered: 'use', by the "
                 "forward and again by the backward of each microbatch; "
                 "'step', once a step; 'keep=PATTERN[,PATTERN]', these once a "
                 "microbatch")
      ->capture_default_str()
      ->type_name("WHEN");
  app.add_option("--overlap", options.overlap,
                 "on: communication is started as soon as it can be, and goes "
                 "on while ranks compute; off: ranks wait for each of it at "
                 "once. Results have the same bits")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, bool>{{"on", true}, {"off", false}}))
      ->default_str("on")
      ->type_name("on|off");
  app.add_option("--prefetch", options.prefetch,
                 "With --zero 3, how many gathers of parameters are started "
                 "ahead of the one in use: each takes the memory of what it "
                 "gathers")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000))
      ->type_name("N");
  app.add_option("--threads", options.threads, "Threads of each rank")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--cpu", options.cpu,
                 "What the kernels are compiled for: native, x86-64-v3, "
                 "x86-64-v4 or an LLVM CPU name")
      ->capture_default_str()
      ->type_name("CPU");
  app.add_option("--link", options.links,
                 "AXIS=MICROSECONDS:GB_PER_S: latency and bandwidth along an "
                 "axis, for the choice of collectives and when they start")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("SPEC");
  app.add_option("--rates", options.rates,
                 "compute=GFLOPS,memory=GB_PER_S: what a rank computes and "
                 "reads from memory, for when communication starts; polyrank-run --profile measures it. "
                 "Without this what a CPU of today reaches")
      ->type_name("RATES");
  app.add_option("--stop-after", options.stopAfter,
                 "Print the MLIR after import, training, propagate, partition "
                 "or rank, and stop")
      ->check(oneOf({"import", "training", "propagate", "partition", "rank"}))
      ->type_name("STAGE");
  app.add_option("--dump-passes", options.dumpDirectory,
                 "Write the MLIR after each pass into this folder")
      ->type_name("DIR");
  app.add_flag("--why", options.why,
               "Print each collective: what moves, from which layout to which, "
               "and which op and constraint forced it");
  app.add_flag("--timing", options.timing,
               "Print the time of each pass at the end");
  auto *json = app.add_flag(
      "--json", options.json,
      "Print one JSON object on standard output: messages, the time of each "
      "pass, checks, objective and bound, and what polyrank-inspect says of "
      "the plan. docs/reports.md has the fields");
  json->excludes(app.get_option("--stop-after"));
  app.add_flag("-q,--quiet", options.quiet, "Print warnings and errors only");
  addConfigOptions(app);
  addDocumentOptions(app);
  group(app, "What is compiled",
        {"--output", "--describe", "--mode", "--input", "--dim", "--bind",
         "--abstract-weights"});
  group(app, "Training",
        {"--loss", "--metric", "--optimizer", "--lr-schedule", "--group",
         "--clip-norm", "--clip-norm-type", "--clip-value", "--ema",
         "--microbatches", "--train", "--eval", "--batch-norm", "--dropout",
         "--freeze", "--train-only", "--params", "--detach", "--no-tie"});
  group(app, "Ranks",
        {"--mesh",
         "--shard",
         "--shard-file",
         "--batch-axes",
         "--pipe-axis",
         "--stages",
         "--stage",
         "--chunks",
         "--schedule",
         "--recompute",
         "--recompute-gathers",
         "--zero",
         "--zero-axis",
         "--zero-threshold",
         "--zero-accumulate",
         "--zero-gather",
         "--bucket-mb",
         "--overlap",
         "--prefetch",
         "--link",
         "--rates",
         "--threads",
         "--cpu"});
  group(app, "What is said",
        {"--why", "--timing", "--json", "--quiet", "--stop-after",
         "--dump-passes"});
  group(app, "The command line",
        {"--config", "--write-config", "--completions", "--man"});
  app.footer(
      "Example:\n"
      "  polyrank-compile model.onnx -o model.plan --mesh data=2 \\\n"
      "      --loss 'cross_entropy(logits,labels)' \\\n"
      "      --optimizer 'adamw(lr=1e-3)'\n"
      "polyrank-compile model.onnx --describe prints the command for your "
      "model.");
  try {
    app.parse(argc, argv);
    refuseEmptyPaths(app);
    for (const char *option : {"--optimizer", "--lr-schedule", "--group"})
      if (mode == "forward" && app.count(option))
        throw CLI::ValidationError(option, "a forward plan changes no weights");
    for (const char *option :
         {"--freeze", "--train-only", "--detach", "--clip-norm", "--clip-value",
          "--ema", "--zero-accumulate", "--recompute"})
      if (mode == "forward" && app.count(option))
        throw CLI::ValidationError(option, "a forward plan has no gradients");
    if (mode == "forward" && app.count("--zero-axis") && options.zero < 3)
      throw CLI::ValidationError(
          "--zero-axis", "a forward plan has no gradients; --zero 3 splits its "
                         "parameters");
    if (app.count("--zero-accumulate") && options.zero < 2)
      throw CLI::ValidationError("--zero-accumulate",
                                 "needs --zero 2 or 3; --zero " +
                                     std::to_string(options.zero) +
                                     " adds up whole gradients");
    if (app.count("--zero-gather") && options.zero < 3)
      throw CLI::ValidationError("--zero-gather",
                                 "needs --zero 3; --zero " +
                                     std::to_string(options.zero) +
                                     " keeps parameters whole");
    if (app.count("--prefetch") && !options.overlap)
      throw CLI::ValidationError(
          "--prefetch", "needs --overlap on; with --overlap off nothing is "
                        "started ahead");
    if (mode == "forward" && app.count("--dropout"))
      throw CLI::ValidationError("--dropout", "a forward plan drops nothing");
    writeConfigIfAsked(app);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  options.forward = mode == "forward";
  options.given = givenOptions(app);
  options.layerMode = train ? "train" : eval ? "eval" : "";
  return options;
}
