"""The second module of the zoo, for packages that bring a capability: a command, an engine.

    from zoo import kit

    @kit.command()
    @kit.runs_option
    def count_command(runs):
        '''Count the runs.'''
        return kit.Answer({"runs": 3}, "3 runs")

docs/kit.md lists the names. They are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo._lazy import lazy

if TYPE_CHECKING:
    from zoo_tune.report import SearchFacts as SearchFacts

    from zoo_core.api import facts_of as facts_of
    from zoo_core.cli.options import PATH as PATH
    from zoo_core.cli.options import data_options as data_options
    from zoo_core.cli.options import dataset_argument as dataset_argument
    from zoo_core.cli.options import dataset_option as dataset_option
    from zoo_core.cli.options import device_option as device_option
    from zoo_core.cli.options import engine_options as engine_options
    from zoo_core.cli.options import model_argument as model_argument
    from zoo_core.cli.options import output_option as output_option
    from zoo_core.cli.options import quiet_option as quiet_option
    from zoo_core.cli.options import run_argument as run_argument
    from zoo_core.cli.options import runs_option as runs_option
    from zoo_core.cli.options import set_option as set_option
    from zoo_core.cli.options import storage_option as storage_option
    from zoo_core.cli.options import training_options as training_options
    from zoo_core.cli.options import yes_option as yes_option
    from zoo_core.cli.output import Answer as Answer
    from zoo_core.cli.output import command as command
    from zoo_core.cli.output import echo as echo
    from zoo_core.cli.output import group as group
    from zoo_core.cli.output import print_fields as print_fields
    from zoo_core.cli.output import print_part as print_part
    from zoo_core.cli.output import print_table as print_table
    from zoo_core.cli.runs import comparison_table as comparison_table
    from zoo_core.cli.runs import verdicts as verdicts
    from zoo_core.cli.train import entry_of as entry_of
    from zoo_core.cli.train import refuse_settings as refuse_settings
    from zoo_core.cli.train import typed_settings as typed_settings
    from zoo_core.data.augment import parse_augment as parse_augment
    from zoo_core.data.datasets import lasting as lasting
    from zoo_core.data.datasets import named_or as named_or
    from zoo_core.data.datasets import read_originals as read_originals
    from zoo_core.data.features import FeatureFile as FeatureFile
    from zoo_core.data.features import kept_features as kept_features
    from zoo_core.data.images import names_image as names_image
    from zoo_core.data.images import open_image as open_image
    from zoo_core.data.images import viewed as viewed
    from zoo_core.data.listed import Listed as Listed
    from zoo_core.data.listed import list_images as list_images
    from zoo_core.data.loader import Loader as Loader
    from zoo_core.data.ops import resize_weights as resize_weights
    from zoo_core.data.sheets import pages as pages
    from zoo_core.data.sheets import write_sheet as write_sheet
    from zoo_core.data.table_files import shards as shards
    from zoo_core.data.tables import Table as Table
    from zoo_core.data.tables import table_originals as table_originals
    from zoo_core.io.blocks import BlockStore as BlockStore
    from zoo_core.io.blocks import Layout as Layout
    from zoo_core.io.console import duration as duration
    from zoo_core.io.console import figure as figure
    from zoo_core.io.console import named as named
    from zoo_core.io.console import numeric as numeric
    from zoo_core.io.console import percent as percent
    from zoo_core.io.console import progress as progress
    from zoo_core.io.console import say as say
    from zoo_core.io.console import size as size
    from zoo_core.io.console import typed as typed
    from zoo_core.io.console import visible as visible
    from zoo_core.io.console import warn as warn
    from zoo_core.io.documents import document_digest as document_digest
    from zoo_core.io.documents import read_document as read_document
    from zoo_core.io.documents import write_document as write_document
    from zoo_core.io.errors import MissingDependency as MissingDependency
    from zoo_core.io.errors import did_you_mean as did_you_mean
    from zoo_core.io.errors import os_errors as os_errors
    from zoo_core.io.errors import signal_of as signal_of
    from zoo_core.io.files import atomic_write as atomic_write
    from zoo_core.io.files import cache_dir as cache_dir
    from zoo_core.io.files import file_digest as file_digest
    from zoo_core.io.files import locked as locked
    from zoo_core.io.files import temporary_folder as temporary_folder
    from zoo_core.io.net import download as download
    from zoo_core.io.net import pip_download as pip_download
    from zoo_core.io.net import run_client as run_client
    from zoo_core.io.process import be_portable as be_portable
    from zoo_core.io.process import process as process
    from zoo_core.io.targets import Displayed as Displayed
    from zoo_core.io.targets import describe as describe
    from zoo_core.io.targets import missing_dependency as missing_dependency
    from zoo_core.io.targets import resolve as resolve
    from zoo_core.report.look import COLOURS as COLOURS
    from zoo_core.report.look import INK as INK
    from zoo_core.report.look import MISTAKE as MISTAKE
    from zoo_core.report.look import End as End
    from zoo_core.report.look import epoch_axes as epoch_axes
    from zoo_core.report.look import in_percent as in_percent
    from zoo_core.report.look import label_ends as label_ends
    from zoo_core.report.look import line_style as line_style
    from zoo_core.report.look import new_figure as new_figure
    from zoo_core.report.look import panels_of as panels_of
    from zoo_core.report.look import save_figure as save_figure
    from zoo_core.report.look import short as short
    from zoo_core.report.look import tidy as tidy
    from zoo_core.report.notebook import notebook_html as notebook_html
    from zoo_core.report.plots import Line as Line
    from zoo_core.report.plots import draw_comparison as draw_comparison
    from zoo_core.report.text import Facts as Facts
    from zoo_core.report.text import escaped as escaped
    from zoo_core.report.text import markdown_table as markdown_table
    from zoo_core.report.text import results as results
    from zoo_core.report.text import surest_mistakes as surest_mistakes
    from zoo_core.report.text import to_type as to_type
    from zoo_core.report.write import Report as Report
    from zoo_core.report.write import chosen_images as chosen_images
    from zoo_core.report.write import measured_split as measured_split
    from zoo_core.report.write import write_report as write_report
    from zoo_core.runs.leftovers import all_leftovers as all_leftovers
    from zoo_core.runs.predictions import Predictions as Predictions
    from zoo_core.runs.predictions import intervals as intervals
    from zoo_core.runs.predictions import read_predictions as read_predictions
    from zoo_core.runs.predictions import reliability as reliability
    from zoo_core.runs.predictions import same_images as same_images
    from zoo_core.runs.run import FORMAT as FORMAT
    from zoo_core.runs.run import Run as Run
    from zoo_core.runs.run import SearchFolder as SearchFolder
    from zoo_core.runs.run import new_run as new_run
    from zoo_core.runs.run import runs_root as runs_root
    from zoo_core.runs.statistics import Difference as Difference
    from zoo_core.runs.statistics import paired as paired
    from zoo_core.runs.statistics import spread as spread
    from zoo_core.runs.statistics import wilson as wilson
    from zoo_core.runs.summary import class_scores as class_scores
    from zoo_core.runs.summary import curves_of as curves_of
    from zoo_core.runs.summary import final_scores as final_scores
    from zoo_core.runs.summary import mixups as mixups
    from zoo_core.runs.summary import number as number
    from zoo_core.spec.entries import PluginRecord as PluginRecord
    from zoo_core.spec.framework import check_options as check_options
    from zoo_core.spec.hooks import API as API
    from zoo_core.spec.hooks import HOOKS as HOOKS
    from zoo_core.spec.plugins import SLOW as SLOW
    from zoo_core.spec.plugins import load_plugins as load_plugins
    from zoo_core.spec.recipe import freeze as freeze
    from zoo_core.spec.registry import open_engine as open_engine
    from zoo_core.spec.registry import qualified_name as qualified_name
    from zoo_core.spec.registry import registry as registry
    from zoo_core.spec.settings import ALWAYS as ALWAYS
    from zoo_core.spec.settings import FIELDS as FIELDS
    from zoo_core.spec.settings import SECTIONS as SECTIONS
    from zoo_core.spec.settings import as_typed as as_typed
    from zoo_core.spec.settings import asked as asked
    from zoo_core.spec.settings import choose_recipe as choose_recipe
    from zoo_core.spec.settings import merge as merge
    from zoo_core.spec.settings import override as override
    from zoo_core.spec.settings import parse_settings as parse_settings
    from zoo_core.spec.settings import what_it_sets as what_it_sets
    from zoo_core.train.attempt import Attempt as Attempt
    from zoo_core.train.attempt import attempt as attempt
    from zoo_core.train.builder import begin_run as begin_run
    from zoo_core.train.builder import build_job as build_job
    from zoo_core.train.builder import check_same as check_same
    from zoo_core.train.builder import command_line as command_line
    from zoo_core.train.builder import environment as environment
    from zoo_core.train.builder import follow_data as follow_data
    from zoo_core.train.builder import open_data as open_data
    from zoo_core.train.builder import spare_tests as spare_tests
    from zoo_core.train.checkpoint import Checkpoints as Checkpoints
    from zoo_core.train.display import Bars as Bars
    from zoo_core.train.display import Display as Display
    from zoo_core.train.display import open_bars as open_bars
    from zoo_core.train.display import open_display as open_display
    from zoo_core.train.job import honoured as honoured
    from zoo_core.train.job import trainer_of as trainer_of
    from zoo_core.train.loop import Stopping as Stopping
    from zoo_core.train.runner import completed as completed
    from zoo_core.train.runner import execute as execute
    from zoo_core.train.runner import train as train
    from zoo_core.use.generate import load_sampler as load_sampler
    from zoo_core.use.generate import open_sampler as open_sampler
    from zoo_core.use.generate import sampler_of as sampler_of
    from zoo_core.use.load import as_input as as_input
    from zoo_core.use.load import capability as capability
    from zoo_core.use.load import loaded as loaded
    from zoo_core.use.predict import Answering as Answering
    from zoo_core.use.predict import answers_of as answers_of
    from zoo_core.use.predict import named_images as named_images
    from zoo_core.use.predict import opened as opened
    from zoo_core.use.predict import readable as readable
    from zoo_core.weights.listing import published as published
    from zoo_core.weights.manifest import package_folder as package_folder
    from zoo_core.weights.references import check_packaged as check_packaged
    from zoo_core.weights.references import locate as locate
    from zoo_core.weights.repository import HuggingFace as HuggingFace
    from zoo_core.weights.verify import read_tensors as read_tensors

__getattr__, __dir__, __all__ = lazy(globals())
